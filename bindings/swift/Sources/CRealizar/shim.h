#include <realizar.h>
