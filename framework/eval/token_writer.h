// Writes text token by token with a trained language model.
//
//   t ~ softmax(l / temperature) over the top_k largest l,   l = the model's `logits`
//
// The model is asked with a batch that has tokens and no targets, and keeps in `carried` what the
// next token needs (framework/nn/modules/language.h), so that a token costs one pass over what it
// sees, not one over all pairs.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/random.h"
#include "framework/contracts/model.h"

namespace attnlab {

struct SamplingOptions {
  double temperature = 1;  ///< 0: always the likeliest
  std::int64_t top_k = 0;  ///< choose among so many; 0: among all
};

/// @param logits  [V] floating point; -infinity: never drawn
/// @throws DataError where one is not a number, or the largest is infinite.
std::int64_t draw_token(const Tensor& logits, const SamplingOptions& options, Random& random);

class TokenWriter {
 public:
  /// @param model  in evaluation mode; it must outlive the writer
  TokenWriter(Model& model, const at::Device& device, const SamplingOptions& options,
              Random random);

  /// Tokens that the text begins with, or goes on with: at least one.
  /// @throws DataError where the model does not say what follows them.
  void read(const std::vector<std::int64_t>& tokens);
  /// Writes a token. `read` comes first.
  std::int64_t next();

 private:
  Model& model_;
  at::Device device_;
  SamplingOptions options_;
  Random random_;
  NamedTensors carried_;
  Tensor logits_;  ///< [V], of what follows
};

}  // namespace attnlab
