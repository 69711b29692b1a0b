// Tensors of an attention's input by the names that Python has for them: of models in Python files,
// and of the module attnlab._native (python/native).
#pragma once

#include <array>

#include "framework/contracts/attention.h"

namespace attnlab::python {

struct InputField {
  const char* name;
  Tensor* tensor;
};

inline std::array<InputField, 17> fields_of(AttentionInput& in) {
  Visibility& visible = in.visible;
  RelativePositions& relative = in.relative;
  return {{{"queries", &in.queries},
           {"keys", &in.keys},
           {"values", &in.values},
           {"key_valid", &visible.key_valid},
           {"query_valid", &visible.query_valid},
           {"pairs", &visible.pairs},
           {"query_offsets", &visible.query_offsets},
           {"key_offsets", &visible.key_offsets},
           {"bias", &in.bias},
           {"relative.keys", &relative.keys},
           {"relative.content_bias", &relative.content_bias},
           {"relative.position_bias", &relative.position_bias},
           {"query_positions", &in.query_positions},
           {"key_positions", &in.key_positions},
           {"query_source", &in.query_source},
           {"key_source", &in.key_source},
           {"value_source", &in.value_source}}};
}

}  // namespace attnlab::python
