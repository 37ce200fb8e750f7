#include "tests/golden/golden_dataset.h"

int main(void) { return golden_run("dataload", golden_dataload_plan); }
