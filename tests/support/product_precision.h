// The precision of products for the length of a scope.
#pragma once

#include "framework/nn/kernels/precision.h"

namespace attnlab::testing {

class ProductPrecision {
 public:
  explicit ProductPrecision(Precision precision) : before_(product_precision()) {
    use_product_precision(precision);
  }
  ~ProductPrecision() { use_product_precision(before_); }
  ProductPrecision(const ProductPrecision&) = delete;
  ProductPrecision& operator=(const ProductPrecision&) = delete;

 private:
  Precision before_;
};

}  // namespace attnlab::testing
