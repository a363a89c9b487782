// Time: this_fiber::sleep_for, sleep_until (fiber.h) and the machine's clock (machine.h).
#pragma once

#include "heddle/fiber.h"
#include "heddle/machine.h"
