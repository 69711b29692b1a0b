// What goes wrong when plugins and results are shared.
#pragma once

#include "framework/base/error.h"

namespace attnlab::sharing {

/// A bundle, an index or a key is damaged, or is not what the format says.
class BundleError : public Error {
 public:
  using Error::Error;
};

/// A signature, a key or the policy says no: nothing of it may be used.
class TrustError : public Error {
 public:
  using Error::Error;
};

}  // namespace attnlab::sharing
