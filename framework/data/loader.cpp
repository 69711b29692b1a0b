#include "framework/data/loader.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "framework/base/hand_over.h"
#include "framework/base/threads.h"

namespace attnlab {
namespace {

void check(const LoaderSettings& settings) {
  std::vector<std::string> problems;
  const auto need = [&](const char* name, std::int64_t value, std::int64_t least) {
    if (value >= least) return;
    problems.push_back(fmt::format("{}: {} is below {}", name, value, least));
  };
  need("first_batch", settings.first_batch, 0);
  need("workers", settings.workers, 0);
  need("prefetch", settings.prefetch, 1);
  if (!problems.empty()) throw ConfigError(problems);
}

/// Each field has one row an example, to be copied as bytes; otherwise null (sets laid end to end).
const Batch* dense(const Batch* resident) {
  if (resident == nullptr || resident->size == 0 || resident->offsets.size() > 0) return nullptr;
  for (const auto& [name, field] : resident->fields) {
    const bool rows = field.dim() > 0 && field.size(0) == resident->size;
    if (!rows || !field.is_contiguous() || !field.device().is_cpu()) return nullptr;
  }
  return resident;
}

/// Uninitialised, for so many rows of what is in memory.
Batch room_for(const Batch& resident, std::int64_t rows) {
  Batch batch;
  batch.size = rows;
  for (const auto& [name, field] : resident.fields) {
    std::vector<std::int64_t> sizes = field.sizes().vec();
    sizes[0] = rows;
    batch.fields.set(name, at::empty(sizes, field.options()));
  }
  return batch;
}

/// How often each index stood in the order before; empty where none stands twice.
std::vector<std::int64_t> occurrences_of(const std::vector<std::int64_t>& order) {
  std::unordered_map<std::int64_t, std::int64_t> seen(order.size());
  std::vector<std::int64_t> before(order.size());
  bool twice = false;
  for (std::size_t i = 0; i < order.size(); ++i) {
    before[i] = seen[order[i]]++;
    twice |= before[i] > 0;
  }
  return twice ? before : std::vector<std::int64_t>{};
}

/// TBB ends the process where a thread of its own cannot start, and keeps those that could. When
/// one first uses LibTorch, that makes its pool anew, and waits for ever where it cannot.
/// @throws ThreadError.
void prove_workers(std::int64_t workers) {
  static std::atomic<std::int64_t> proven{0};
  if (workers <= proven) return;
  check_threads(workers + at::get_num_threads() - 1);
  proven = workers;
}

}  // namespace

class Loader::Impl {
 public:
  Impl(const Dataset& dataset, const RandomStreams& streams, EpochPlan plan,
       const LoaderSettings& settings)
      : dataset_(dataset),
        streams_(streams),
        plan_(std::move(plan)),
        settings_(settings),
        resident_(dense(dataset.resident(settings.split))),
        occurrences_(settings.augment && resident_ == nullptr ? occurrences_of(plan_.order)
                                                              : std::vector<std::int64_t>{}),
        next_(settings.first_batch) {
    check_plan();
    if (in_calling_thread()) return;
    // TBB's own limit is one thread a core; more workers than that wait for disks, not for cores.
    const auto threads = static_cast<std::size_t>(settings_.workers) + 1;
    if (threads > static_cast<std::size_t>(tbb::info::default_concurrency())) {
      limit_.emplace(tbb::global_control::max_allowed_parallelism, threads);
    }
    prove_workers(settings_.workers);
    arena_.emplace(static_cast<int>(settings_.workers), /*reserved_for_masters=*/0);
    slots_.resize(static_cast<std::size_t>(std::max(settings_.prefetch, settings_.workers)));
    for (std::int64_t i = 0; i < std::int64_t(slots_.size()); ++i) begin_batch(next_ + i);
  }

  ~Impl() {
    stop_ = true;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0; });
  }

  std::int64_t batches() const {
    return settings_.only ? std::int64_t(settings_.only->size()) : plan_.batches();
  }

  /// Examples of the next batch; 0 at the end of the epoch.
  std::int64_t next_size() const {
    return next_ < batches() ? std::int64_t(end_of(next_) - begin_of(next_)) : 0;
  }

  /// Whether batches can be rows of the same room as another's.
  bool fits(const Impl& other) const {
    if (resident_ == nullptr || other.resident_ == nullptr) return false;
    if (next_size() != other.next_size() ||
        resident_->fields.size() != other.resident_->fields.size()) {
      return false;
    }
    for (const auto& [name, field] : resident_->fields) {
      const Tensor* theirs = other.resident_->fields.find(name);
      if (theirs == nullptr || theirs->dtype() != field.dtype() ||
          theirs->sizes().slice(1) != field.sizes().slice(1)) {
        return false;
      }
    }
    return true;
  }

  /// For the next batches of so many loaders.
  Batch room(std::int64_t loaders) const {
    Batch batch = room_for(*resident_, loaders * next_size());
    batch.continues = continues(next_);
    return batch;
  }

  /// As `next`, into rows of a larger batch; not at the end of the epoch.
  /// @param stays  whether the same batch is the next one again
  void next_into(Batch& batch, std::int64_t at, bool stays) {
    copy_rows(begin_of(next_), end_of(next_), batch, at);
    if (!stays) ++next_;
  }

  std::optional<Batch> next() {
    if (next_ >= batches()) return std::nullopt;
    if (in_calling_thread()) {
      Batch batch = make_batch(next_);
      ++next_;
      return batch;
    }
    Slot& slot = slot_of(next_);
    {
      std::unique_lock lock(mutex_);
      // (Nobody who sets `stop` tells: it may be a signal's handler.)
      while (!changed_.wait_for(lock, kLookAgain, [&] { return slot.ready; })) {
        if (asked_to_stop()) throw Interrupted();
      }
    }
    if (slot.error) std::rethrow_exception(slot.error);
    Batch batch = std::move(slot.batch);
    slot = Slot{};
    begin_batch(next_ + std::int64_t(slots_.size()));
    ++next_;
    return batch;
  }

 private:
  /// Room for one batch that is being made ahead.
  struct Slot {
    bool ready = false;
    Batch batch;
    std::exception_ptr error;
  };

  static constexpr std::chrono::milliseconds kLookAgain{50};

  bool asked_to_stop() const { return settings_.stop != nullptr && *settings_.stop; }

  /// Taking rows of what is in memory is not worth a thread.
  bool in_calling_thread() const { return settings_.workers == 0 || resident_ != nullptr; }

  Slot& slot_of(std::int64_t number) {
    return slots_[static_cast<std::size_t>(number) % slots_.size()];
  }

  /// Hands a batch to the workers; its slot is free.
  void begin_batch(std::int64_t number) {
    if (number >= batches()) return;
    {
      const std::lock_guard lock(mutex_);
      ++running_;
    }
    hand_over();
    arena_->enqueue([this, number] {
      take_over();
      Slot result;
      try {
        result.batch = make_batch(number);
      } catch (...) {
        result.error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      result.ready = true;
      slot_of(number) = std::move(result);
      --running_;
      changed_.notify_all();  // under the lock: the destructor may run as soon as it is released
    });
  }

  /// Stops early, with less than the whole batch, once the loader is being destroyed.
  /// @throws Interrupted.
  Batch make_batch(std::int64_t number) const {
    const at::NoGradGuard no_gradients;
    const std::size_t begin = begin_of(number), end = end_of(number);
    if (resident_ != nullptr) {
      Batch batch = room_for(*resident_, std::int64_t(end - begin));
      copy_rows(begin, end, batch, 0);
      batch.continues = continues(number);
      return batch;
    }
    std::vector<NamedTensors> examples;
    examples.reserve(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      if (stop_) return {};
      if (asked_to_stop()) throw Interrupted();
      const std::int64_t index = plan_.order[i];
      const std::int64_t before = occurrences_.empty() ? 0 : occurrences_[i];
      const std::int64_t stream = index + dataset_.size(settings_.split) * before;
      Random random = streams_.stream("augmentation", settings_.epoch, std::uint64_t(stream));
      examples.push_back(
          dataset_.example(settings_.split, index, settings_.augment ? &random : nullptr));
    }
    Batch batch = dataset_.collate(examples);
    batch.continues = continues(number);
    return batch;
  }

  /// Which of the plan's batches is handed out as the so-manieth.
  std::int64_t in_plan(std::int64_t number) const {
    return settings_.only ? (*settings_.only)[static_cast<std::size_t>(number)] : number;
  }
  bool continues(std::int64_t number) const { return plan_.continues && in_plan(number) > 0; }
  std::size_t begin_of(std::int64_t number) const {
    const std::int64_t place = in_plan(number);
    return place == 0 ? 0 : static_cast<std::size_t>(plan_.ends[std::size_t(place) - 1]);
  }
  std::size_t end_of(std::int64_t number) const {
    return static_cast<std::size_t>(plan_.ends[std::size_t(in_plan(number))]);
  }

  void check_plan() const {
    std::int64_t before = 0;
    for (const std::int64_t end : plan_.ends) {
      if (end <= before || end > std::int64_t(plan_.order.size())) {
        throw DataError(
            fmt::format("the plan's batches must end one after the other within its {} examples; "
                        "one ends at {} after {}",
                        plan_.order.size(), end, before));
      }
      before = end;
    }
    check_only();
    if (resident_ == nullptr) return;
    // Rows are copied without asking the dataset, which would refuse an index that it lacks.
    for (const std::int64_t index : plan_.order) {
      if (index >= 0 && index < resident_->size) continue;
      throw DataError(
          fmt::format("the plan names example {} of a split of {}", index, resident_->size));
    }
  }

  void check_only() const {
    if (!settings_.only) return;
    std::int64_t before = -1;
    for (const std::int64_t number : *settings_.only) {
      if (number <= before || number >= plan_.batches()) {
        throw DataError(fmt::format("batch {} cannot be handed out after batch {}: the plan has {}",
                                    number, before, plan_.batches()));
      }
      before = number;
    }
  }

  /// Copies the rows whose numbers stand in the order from `begin` to `end`.
  /// @param at  the first one's row in `batch`, which has room for them
  void copy_rows(std::size_t begin, std::size_t end, Batch& batch, std::int64_t at) const {
    for (auto& [name, to] : batch.fields) {
      const Tensor& from = resident_->fields.at(name);
      const auto bytes = static_cast<std::size_t>(from.nbytes()) / std::size_t(from.size(0));
      auto* out = static_cast<std::byte*>(to.data_ptr()) + std::size_t(at) * bytes;
      const auto* in = static_cast<const std::byte*>(from.data_ptr());
      for (std::size_t i = begin; i < end; ++i, out += bytes) {
        std::memcpy(out, in + std::size_t(plan_.order[i]) * bytes, bytes);
      }
    }
  }

  const Dataset& dataset_;
  const RandomStreams streams_;
  const EpochPlan plan_;
  const LoaderSettings settings_;
  const Batch* const resident_;                  ///< the whole split, or null
  const std::vector<std::int64_t> occurrences_;  ///< where examples are augmented
  std::int64_t next_;                            ///< the batch that next() yields; the reader's own

  std::optional<tbb::global_control> limit_;
  std::optional<tbb::task_arena> arena_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::int64_t running_ = 0;  ///< batches handed to the workers and not finished
};

EpochPlan plan_in_order(std::int64_t examples, std::int64_t batch_size) {
  if (batch_size < 1) throw ConfigError(fmt::format("batch_size: {} is below 1", batch_size));
  EpochPlan plan;
  plan.order.resize(static_cast<std::size_t>(examples));
  std::iota(plan.order.begin(), plan.order.end(), 0);
  for (std::int64_t end = batch_size; end < examples; end += batch_size) plan.ends.push_back(end);
  if (examples > 0) plan.ends.push_back(examples);
  return plan;
}

Loader::Loader(const Dataset& dataset, const RandomStreams& streams, EpochPlan plan,
               const LoaderSettings& settings) {
  check(settings);
  impl_ = std::make_unique<Impl>(dataset, streams, std::move(plan), settings);
}

Loader::~Loader() = default;

std::int64_t Loader::batches() const { return impl_->batches(); }

std::optional<Batch> Loader::next() { return impl_->next(); }

namespace {

/// The slow way of `next_of`.
std::optional<Batch> next_joined(const std::vector<Loader*>& loaders) {
  std::vector<Batch> batches(loaders.size());
  const Batch* some = nullptr;
  for (std::size_t i = 0; i < loaders.size(); ++i) {
    if (loaders[i] == nullptr) continue;
    std::optional<Batch> batch = loaders[i]->next();
    if (!batch) continue;
    batches[i] = std::move(*batch);
    some = &batches[i];
  }
  if (some == nullptr) return std::nullopt;
  if (loaders.size() == 1) return *some;
  for (std::size_t i = 0; i < loaders.size(); ++i) {
    if (loaders[i] == nullptr) batches[i] = *some;
  }
  return joined(batches);
}

}  // namespace

std::optional<Batch> next_of(const std::vector<Loader*>& loaders) {
  const auto present = [](const Loader* loader) { return loader != nullptr; };
  const auto found = std::find_if(loaders.begin(), loaders.end(), present);
  if (found == loaders.end()) return std::nullopt;
  Loader::Impl& some = *(*found)->impl_;
  if (some.next_size() == 0) return std::nullopt;
  const bool fit = std::all_of(loaders.begin(), loaders.end(), [&](const Loader* loader) {
    return loader == nullptr || some.fits(*loader->impl_);
  });
  if (!fit) return next_joined(loaders);
  const std::int64_t size = some.next_size();
  Batch batch = some.room(std::int64_t(loaders.size()));
  // Those that stand in for others go first: `some` moves on with its own.
  for (const bool stands_in : {true, false}) {
    for (std::size_t i = 0; i < loaders.size(); ++i) {
      if ((loaders[i] == nullptr) != stands_in) continue;
      Loader::Impl& from = stands_in ? some : *loaders[i]->impl_;
      from.next_into(batch, std::int64_t(i) * size, stands_in);
    }
  }
  return batch;
}

}  // namespace attnlab
