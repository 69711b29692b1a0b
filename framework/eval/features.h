// Features of a model by name: what kNN, probes and retrieval read in place of its answers.
//
//   class           the class token behind the last layer             [B, C]
//   mean            the mean of its other tokens (patches)            [B, C]
//   pooled          `class` where the model has one, else `mean`
//   class@3         of layer 3, counted from 1
//   mean@-2         of the last layer but one
//   class@last4     of the last four layers, the earliest first       [B, 4 C]
//
// Several names give one vector, one after the other: `features: [class, mean]` is what the linear
// evaluation of DINO and iBOT reads of ViT-B, [class@last4] of ViT-S. Tokens of every layer have
// passed the model's last norm, as there. Models that give features list `layer_features?`.
// Source: Caron et al., DINO, ICCV 2021; Zhou et al., iBOT, ICLR 2022; their code.
#pragma once

#include <string>
#include <vector>

#include "framework/contracts/task.h"

namespace attnlab {

class FeatureReader {
 public:
  /// @param names   of features
  /// @param option  that gives them, for messages
  /// @throws OptionError for a name of another form, and where there is none.
  explicit FeatureReader(const std::vector<std::string>& names, std::string option = "features");

  /// Features of a batch: a forward pass, in the mode that the model is in.
  /// @returns [B, sum of the channels], dtype and device of the model's.
  /// @throws OptionError for a layer or a token that the model does not have, saying what it has;
  ///         DataError for a model that gives no features.
  Tensor read(Model& model, const Batch& batch) const;

  /// The layers that are asked for, in the order of the model's, with all their tokens.
  /// @throws as `read`.
  std::vector<LayerFeatures> layers(Model& model, const Batch& batch) const;

 private:
  enum class Token { class_token, mean, pooled };
  struct Part {
    std::string name;  ///< as it was given
    Token token = Token::pooled;
    std::int64_t layer = -1;  ///< as in FeatureTrace::layers
  };

  FeatureTrace asked(Model& model, const Batch& batch) const;
  Tensor part_of(const Part& part, const FeatureTrace& trace) const;

  std::string option_;
  std::vector<Part> parts_;
};

/// Features of a whole split with their classes, on the CPU.
struct FeatureTable {
  Tensor features;  ///< [N, C] float32
  Tensor classes;   ///< [N] int64, 0 <= class < classes of the dataset

  std::int64_t size() const { return classes.defined() ? classes.size(0) : 0; }
};

/// @throws DataError for features of a split that are not numbers.
void check_finite(const Tensor& features, const DatasetInfo& data, Split split);

/// Reads a split, as it is evaluated: the training split without augmentation.
/// @throws DataError for a class out of range and for features that are not numbers.
FeatureTable features_of(const Evaluation& evaluation, Split split, const FeatureReader& reader);

/// The same of the training split, kept in `Evaluation::fitted` for evaluations of the same
/// weights.
/// @throws DataError also for a class without an example.
FeatureTable training_features(const Evaluation& evaluation, const FeatureReader& reader);

}  // namespace attnlab
