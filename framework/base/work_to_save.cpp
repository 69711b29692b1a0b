#include "framework/base/work_to_save.h"

#include <atomic>

namespace attnlab {
namespace {

std::atomic<int> living{0};
static_assert(std::atomic<int>::is_always_lock_free, "read in a signal handler");

}  // namespace

WorkToSave::WorkToSave() { ++living; }
WorkToSave::~WorkToSave() { --living; }
bool WorkToSave::any() { return living > 0; }

}  // namespace attnlab
