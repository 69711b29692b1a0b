// A way through all that a pickle says.
#pragma once

#include "framework/data/formats/pickle.h"
#include "tests/fuzz/fuzz.h"

namespace attnlab::fuzz {

/// Asks for everything once; values may lie in each other more than once, and in themselves.
class Walk {
 public:
  void visit(const PickleValue& value) {
    if (--left_ < 0 || depth_ > 100) return;
    ++depth_;
    switch (value.kind()) {
      case PickleValue::Kind::none:
        break;
      case PickleValue::Kind::boolean:
      case PickleValue::Kind::integer:
        value.integer();
        break;
      case PickleValue::Kind::real:
        value.number();
        break;
      case PickleValue::Kind::text:
        value.text();
        break;
      case PickleValue::Kind::list:
        for (std::int64_t i = 0; i < value.length(); ++i) visit(value.item(i));
        break;
      case PickleValue::Kind::map:
        for (const auto& [key, entry] : value.entries()) {
          visit(*key);
          visit(*entry);
        }
        break;
      case PickleValue::Kind::tensor:
        look_at(value);
        break;
      case PickleValue::Kind::object:
        value.class_name();
        try {
          visit(value.state());
        } catch (const DataError&) {
          // it has none
        }
        break;
    }
    --depth_;
  }

 private:
  /// Reads every number of an array.
  static void look_at(const PickleValue& value) {
    try {
      value.tensor().to(at::kDouble).sum().item<double>();
    } catch (const DataError&) {
      // it never got its values
    }
  }

  int left_ = 10000, depth_ = 0;
};

}  // namespace attnlab::fuzz
