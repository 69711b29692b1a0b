// The processes that carry out one run together: what they tell each other, and sums that are the
// same bits however many they are.
//
// A sum over the parts of a batch is a binary tree over them: ((0 + 1) + (2 + 3)) + ... A process
// sums the tree of its own parts, and pairs of processes sum on, so that every number of the result
// is made by the same additions in the same order, with one process or with many. (A ring adds in
// the order of its processes.) Each pair halves what it sums, as in recursive halving and doubling
// (Thakur, Rabenseifner & Gropp, 2005): numbers sent by a process are those of a ring, 2 (1 - 1/W)
// of all, in 2 log2 W messages. Processes are a power of two.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Another process of the run has ended, or does not answer.
class WorldError : public Error {
 public:
  using Error::Error;
};

/// The same, and `what()` says which one.
class LostProcess : public WorldError {
 public:
  using WorldError::WorldError;
};

/// An error of one process, which all throw at the same call. `what()` says whose it is.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// What is known of the other processes after a WorldError.
struct Missing {
  std::string text;     ///< which left no word, and what the others said of themselves
  bool failed = false;  ///< whether one of them left word of an error of its own
};

/// All processes must make the same calls in the same order. Each call waits for others, and gives
/// up after a while that the maker knows. @throws WorldError then.
class World {
 public:
  virtual ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Of one process.
  static std::shared_ptr<World> alone();

  std::int64_t rank() const { return rank_; }
  std::int64_t size() const { return size_; }
  /// Whether this is the process that writes the run's folder and speaks to people.
  bool first() const { return rank_ == 0; }

  /// What each process has to say, by rank. Where one of them was asked to stop, all know it
  /// afterwards.
  std::vector<std::string> gather(const std::string& mine);
  /// The same of what each makes by itself. Where that fails in one, all learn it here, so that
  /// none waits for it at the next call.
  /// @throws AgreedError; in one process alone, what `make` throws.
  std::vector<std::string> gather_made(const std::function<std::string()>& make);
  /// Waits until all have come so far.
  void meet() { gather(""); }
  /// What process 0 decides.
  bool first_says(bool mine);
  /// Gives a partner `mine` and takes `theirs` from it. Both partners make this call, in the same
  /// order; others need not.
  /// @param mine, theirs  contiguous, on the CPU, of one dtype; not of one memory; either may be
  ///                      empty. `theirs` is as long as what the partner gives.
  virtual void exchange(const Tensor& mine, const Tensor& theirs, std::int64_t partner) = 0;

  /// From here on, `asked` is heard at each `gather`; it must outlive this.
  void heed(const std::atomic<bool>& asked) { asked_ = &asked; }
  /// Set in all processes at the same call, where one of them was asked to stop.
  const std::atomic<bool>& stop() const { return stop_; }

  /// What people call a process: "process 1 of 4 (pid 77 on node2)".
  virtual std::string name(std::int64_t rank) const;
  /// Leaves word why this process stops, for those that go on to wait for it. Never throws.
  virtual void leave(const std::string& reason) noexcept { (void)reason; }
  /// After a WorldError.
  virtual Missing missing() { return {}; }

 protected:
  World(std::int64_t rank, std::int64_t size) : rank_(rank), size_(size) {}

 private:
  virtual std::vector<std::string> gather_all(const std::string& mine) = 0;

  std::int64_t rank_, size_;
  const std::atomic<bool>* asked_ = nullptr;
  std::atomic<bool> stop_{false};
};

/// Adds the tensors of all processes in tree order, in place; in all, the same bits are there then.
/// @param tensors  in each process as many, of the same shapes and dtypes; on any device
void tree_sum(World& world, std::vector<Tensor>& tensors);

/// Pieces of a list of numbers, one of each process, become the whole list in all of them, in
/// log2 W messages (recursive doubling).
/// @param flat  [n], contiguous, on the CPU, with this process's piece; the others are filled in
/// @param cuts  process r has [cuts[r], cuts[r + 1])
void all_gather(World& world, const Tensor& flat, const std::vector<std::int64_t>& cuts);

/// The sum over a process's own parts, or of a process that has all of them: lists of tensors are
/// added in the order of parts. Of a part that is not there, or of an undefined tensor, nothing is
/// added.
class TreeSum {
 public:
  /// Takes a part's tensors, which may be changed from here on. Parts come in rising order.
  void add(std::int64_t part, std::vector<Tensor> tensors);
  /// The sum; empty where there was no part.
  std::vector<Tensor> result();

 private:
  struct Node {
    int level = 0;           ///< of 2^level parts
    std::int64_t index = 0;  ///< from part index * 2^level on
    std::vector<Tensor> tensors;
  };
  void rise();

  std::vector<Node> nodes_;  ///< whose sum is waited for, from left to right
};

/// Tensors as text, and back: for `World::gather`. Bytes are kept as they are.
std::string packed(const NamedTensors& tensors);
/// @throws DataError for what `packed` did not make.
NamedTensors unpacked(const std::string& text);

}  // namespace attnlab
