// Prefetching loader: the batches of an epoch's plan, made ahead by TBB workers.
//
// What it yields depends on (dataset, seed, epoch, plan) alone, not on the number of workers or
// on timing: each example is augmented by a random stream of its own, and batches are handed out
// in order. At most `prefetch` batches exist ahead of the reader. A batch is only begun when there
// is room for it, so workers never wait inside a task and sleep when there is nothing to do.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "framework/contracts/dataset.h"

namespace attnlab {

struct LoaderSettings {
  Split split = Split::train;
  bool augment = false;          ///< give each example its augmentation stream
  std::uint64_t epoch = 0;       ///< part of the name of those streams
  std::int64_t first_batch = 0;  ///< begin here; earlier batches are not made
  std::int64_t workers = 1;      ///< 0: batches are made in the calling thread, when asked for
  std::int64_t prefetch = 4;     ///< batches ahead, at least `workers` of them
  /// Numbers of the plan's batches that are handed out, rising; nothing: all. `first_batch` counts
  /// among them. Examples of the others are not made.
  std::optional<std::vector<std::int64_t>> only{};
  /// Where it is set, nobody waits for a batch any more; null: nobody sets it.
  const std::atomic<bool>* stop = nullptr;
};

/// A plan of the first `examples` examples in order, in batches of `batch_size`.
EpochPlan plan_in_order(std::int64_t examples, std::int64_t batch_size);

class Loader {
 public:
  /// @param dataset  must outlive the loader.
  /// @param plan  of the split's examples
  /// @throws ConfigError for settings without meaning, DataError for a plan that does not fit,
  ///         ThreadError where workers cannot start.
  Loader(const Dataset& dataset, const RandomStreams& streams, EpochPlan plan,
         const LoaderSettings& settings);
  /// Stops after the examples that are being read now.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Batches of the whole epoch that are handed out, those before `first_batch` included.
  std::int64_t batches() const;
  /// The next batch; empty at the end of the epoch.
  /// @throws what the dataset threw for one of the batch's examples, again on every call;
  ///         Interrupted where `stop` is set before the batch is ready.
  std::optional<Batch> next();

 private:
  friend std::optional<Batch> next_of(const std::vector<Loader*>& loaders);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The next batches of several loaders, one after the other in one batch; empty at the end of their
/// epochs. Where data is in memory each row is copied once, to where it belongs.
/// @param loaders  of equally many batches; null: another's batch stands in its place
/// @throws ShapeError where their fields differ in shape; what `next` throws.
std::optional<Batch> next_of(const std::vector<Loader*>& loaders);

}  // namespace attnlab
