// Everything.
#pragma once

#include "heddle/channel.h"
#include "heddle/fiber.h"
#include "heddle/io.h"
#include "heddle/machine.h"
#include "heddle/parallel.h"
#include "heddle/runtime.h"
#include "heddle/settings.h"
#include "heddle/sync.h"
#include "heddle/task_group.h"
#include "heddle/time.h"

#define HEDDLE_VERSION_MAJOR 0
#define HEDDLE_VERSION_MINOR 1
#define HEDDLE_VERSION_PATCH 0
#define HEDDLE_VERSION "0.1.0"
