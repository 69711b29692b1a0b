// A static object's constructor throws while the library is loaded; not everywhere can that be
// caught.
#include <stdexcept>

#include "tests/broken_plugins/broken.h"

namespace {

struct Table {
  Table() { throw std::runtime_error("the table's file is missing"); }
};
[[maybe_unused]] const Table table;

}  // namespace

BROKEN_PLUGIN(attnlab::broken::Sound, "broken/constructor_throws")
