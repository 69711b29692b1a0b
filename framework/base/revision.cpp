#include "framework/base/revision.h"

#include "framework/base/revision_hash.h"

namespace attnlab {

std::string framework_revision() { return ATTNLAB_REVISION; }

}  // namespace attnlab
