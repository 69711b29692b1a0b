// Datasets made up by rule: every example is a function of a seed, its split and its index. Small
// splits are kept whole; examples of large ones are drawn when they are asked for.
//
// The seed is the run's own, so that other seeds are other data; or `data_seed`, so that the data
// stay while the run's seed changes the rest (initial weights, order, dropout).
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>

#include "framework/base/text.h"
#include "framework/config/options.h"
#include "framework/contracts/dataset.h"

namespace attnlab {

/// Options that datasets made up by rule share.
struct MadeUpOptions {
  std::int64_t train = 1000, validation = 0, test = 1000;
  std::int64_t data_seed = -1;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("train", train, range(1, 1e9), "training examples");
    v("validation", validation, range(0, 1e9), "validation examples, made like training examples");
    v("test", test, range(0, 1e9), "test examples");
    v("data_seed", data_seed, at_least(-1),
      "seed of the data, independent of the run's seed; -1: the run's seed");
  }
};

/// "tokens=20;noise=0.1;...": every option of a struct, groups too, for a fingerprint.
class OptionText {
 public:
  template <class T>
  void operator()(std::string_view name, T& value, std::string_view) {
    text_ += std::string(name) + '=';
    if constexpr (OptionsStruct<T>) {
      text_ += '{' + of(value) + '}';
    } else if constexpr (std::is_same_v<T, std::string>) {
      text_ += value;
    } else if constexpr (std::is_floating_point_v<T>) {
      text_ += shortest(value);
    } else {
      text_ += std::to_string(value);
    }
    text_ += ';';
  }
  template <class T>
  void operator()(std::string_view name, T& value, const Rule&, std::string_view help) {
    (*this)(name, value, help);
  }

  template <class Options>
  static std::string of(Options options) {
    OptionText visitor;
    options.describe(visitor);
    return visitor.text_;
  }

 private:
  std::string text_;
};

class MadeUpDataset : public Dataset {
 public:
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override;
  /// Splits of up to 64 MiB; made when they are first asked for.
  const Batch* resident(Split split) const override;

 protected:
  /// @param rule     what `info().source` says
  /// @param options  all of them as text (`OptionText::of`), for the fingerprint
  MadeUpDataset(const std::string& name, const std::string& rule, const MadeUpOptions& sizes,
                const std::string& options, const DatasetSetup& setup);

  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const final;
  /// One example. @param random  the example's own stream.
  virtual NamedTensors make(Split split, Random& random) const = 0;
  /// What all examples share is drawn from this stream.
  Random shared_stream() const;

  DatasetInfo info_;  ///< the constructor leaves fields and classes to the dataset

 private:
  /// A split, once it was asked for; no batch where it is too large.
  struct Kept {
    std::once_flag made;
    std::optional<Batch> batch;
  };

  void keep(Split split, Kept& kept) const;

  MadeUpOptions sizes_;
  RandomStreams streams_;
  mutable std::array<Kept, 3> kept_;
};

}  // namespace attnlab
