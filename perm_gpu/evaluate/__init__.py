"""The evaluation of ModelNew: correctness, three clocks, and the kernels' builds."""
