// Merging of maps by the rules of composition (compose.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "framework/config/compose.h"
#include "framework/config/problems.h"

namespace attnlab {

/// The key of an entry of a map, from the top: "train" and "lr" make "train.lr".
std::string key_below(const std::string& at, const std::string& key);

/// Merges maps, and notes what the result does not show any more.
class Merger {
 public:
  Merger(std::vector<Edit>& edits, Problems& problems) : edits_(edits), problems_(problems) {}

  /// @param at  the key of `base`, from the top
  void merge(Node& base, const Node& over, const std::string& at);

 private:
  void start_over(Node& base, const Node& over, const std::string& at);
  void merge_entry(Node& base, const std::string& key, const Node& value, const Place& key_place,
                   const std::string& at);
  void postpone(Node& base, const std::string& key, const Node& change);
  Node applied(const Node& value, const std::string& at);
  void append(Node& base, const std::string& key, const Node& extra, const Place& key_place,
              const std::string& at);
  void remove(Node& base, const std::string& key, const Node& what, const Place& key_place,
              const std::string& at);
  void note_change_of(const Node& list, const std::string& key, const Node& by);

  std::vector<Edit>& edits_;
  Problems& problems_;
  std::size_t edited_ = 0;  ///< bytes
};

}  // namespace attnlab
