// One kernel, PERM_KERNEL of the file PERM_SOURCE, as a function of its parameters' addresses.

#include "shim.h"

#include PERM_SOURCE

extern "C" void run_thread(void** parameters) { call(PERM_KERNEL, parameters); }
