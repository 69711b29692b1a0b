// Precompiled for all tests of code with LibTorch.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/host/registry.h"
#include "framework/plugin.h"
