// The dataset contract: a dataset describes itself, gives examples by index, and plans epochs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/random.h"
#include "framework/contracts/batch.h"

namespace attnlab {

enum class Split { train, validation, test };

/// "train", "validation" or "test".
std::string_view name_of(Split split);

/// What a dataset says of itself once it is opened. (Modality, licence and citation stand in its
/// plugin's manifest, where they can be read without opening it.)
struct DatasetInfo {
  std::string name;
  std::vector<FieldInfo> fields;
  std::int64_t classes = 0;  ///< 0: no classes
  std::vector<std::string> class_names;
  std::int64_t vocabulary = 0;  ///< int64 token fields hold 0 to vocabulary - 1; 0: no tokens
  std::string source;           ///< the folder or rule that it was read from
  std::string fingerprint;      ///< changes when the data change
  /// Classes by the name of a group: "base", "novel".
  std::map<std::string, std::vector<std::int64_t>> class_groups{};
  /// What throughput counts: the plural for people, and the axis whose rows, or the field whose
  /// elements, are counted (empty: examples). {"tokens", "tokens"}, {"nodes", "node"}.
  std::string unit = "examples";
  std::string unit_field{};

  /// @throws DataError naming the fields that exist.
  const FieldInfo& field(std::string_view name) const;
  /// For messages: the class's name in quotes, or its number where it has no name.
  std::string class_word(std::int64_t number) const;
};

/// How many of the dataset's units a batch holds.
std::int64_t units_of(const DatasetInfo& info, const Batch& batch);

/// One epoch: which examples, in which batches.
struct EpochPlan {
  std::vector<std::int64_t> order;  ///< indices; one may stand in it again
  std::vector<std::int64_t> ends;   ///< where each batch ends in `order`; rising
  /// Row i of each batch goes on where row i of the batch before ended; all batches are equally
  /// large then.
  bool continues = false;

  std::int64_t batches() const { return static_cast<std::int64_t>(ends.size()); }
};

/// What the host asks of a plan.
struct PlanRequest {
  Split split = Split::train;
  bool training = false;  ///< in random order, by `batching`; else each example once, in order
  std::int64_t batch_size = 1;  ///< examples
  bool drop_last = false;       ///< in training: leave out a last batch that is not full
  std::int64_t repeat = 1;      ///< in training: how often each example stands in an epoch
  std::int64_t budget = 0;      ///< fill batches up to this sum of `Dataset::cost`; 0: `batch_size`
  std::uint64_t epoch = 0;
  RandomStreams streams{0};
};

/// Text as a dataset's tokens and back: what a trained model of text is asked with and answers in.
class TextCodec {
 public:
  virtual ~TextCodec() = default;

  /// The tokens of a text as it stands: nothing is put before or behind it, unless the text says so
  /// (a line's end). What the vocabulary lacks becomes its token for that.
  /// @throws DataError for a text that the tokens cannot spell, naming what and where.
  virtual std::vector<std::int64_t> encode(std::string_view text) const = 0;
  /// What a token adds to a text. One after the other, what a text's tokens add spells the text; it
  /// may end within a character of several bytes.
  /// @param before  the token that came before; -1: none
  virtual std::string decode(std::int64_t token, std::int64_t before) const = 0;
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const DatasetInfo& info() const = 0;
  /// Number of examples; 0 for a split that the dataset lacks.
  virtual std::int64_t size(Split split) const = 0;
  /// One example, on the CPU. Thread-safe.
  /// @param index         0 <= index < size(split)
  /// @param augmentation  the example's own stream; a function of (seed, epoch, index, how often
  ///                      the index came before in the epoch), so the result does not depend on
  ///                      threads. Null: do not augment (evaluation).
  /// @throws DataError for an index out of range.
  NamedTensors example(Split split, std::int64_t index, Random* augmentation) const;
  /// Examples as a batch; by default `collated`. Thread-safe.
  virtual Batch collate(const std::vector<NamedTensors>& examples) const;
  /// A whole split as one batch, example i its row i, where that is in memory and the same in every
  /// epoch: loaders then take rows of it instead of asking for examples. By default null.
  /// Thread-safe; it lives as long as the dataset.
  virtual const Batch* resident(Split) const { return nullptr; }

  /// The batches of an epoch; equally many in every epoch of training. By default `default_plan`.
  /// A stream of text overrides it: its examples are windows, and batches continue each other.
  virtual EpochPlan plan(const PlanRequest& request) const;
  /// What an example costs, in whatever `budget` counts: nodes, points, tokens.
  /// @param index  0 <= index < size(split); not checked
  virtual std::int64_t cost(Split, std::int64_t index) const {
    (void)index;
    return 1;
  }

  /// How a dataset of text spells its field `tokens`; null where there is no text. It lives as long
  /// as the dataset. Thread-safe.
  virtual const TextCodec* codec() const { return nullptr; }

 protected:
  /// What `example` gives, once it has checked that the split has this index. Thread-safe.
  virtual NamedTensors make_example(Split split, std::int64_t index,
                                    Random* augmentation) const = 0;
};

/// All examples, in random order in training (stream "order", epoch), cut into batches of
/// `batch_size`, or filled up to `budget`. Batches of a budget are drawn once and only their order
/// differs between epochs, so that there are equally many in each.
EpochPlan default_plan(const Dataset& dataset, const PlanRequest& request);

/// What the host gives a dataset when it opens it.
struct DatasetSetup {
  RandomStreams streams{0};  ///< for splits and synthetic data
};

}  // namespace attnlab
