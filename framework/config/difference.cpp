#include "framework/config/difference.h"

#include <algorithm>

namespace attnlab {
namespace {

bool same(const Node& a, const Node& b);

bool same_entries(const Node& a, const Node& b) {
  if (a.entries().size() != b.entries().size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const auto& entry) {
    const Node* other = b.find(entry.first);
    return other != nullptr && same(entry.second, *other);
  });
}

bool same(const Node& a, const Node& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_map()) return same_entries(a, b);
  if (a.is_list()) {
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), same);
  }
  if (a.text() == b.text()) return true;  // "5" and 5 are the same to an option
  const auto first = a.as_double(), second = b.as_double();
  return first && second && *first == *second;
}

void compare(const Node* before, const Node* after, const std::string& key,
             std::vector<Difference>& out) {
  const bool maps =
      (before == nullptr || before->is_map()) && (after == nullptr || after->is_map());
  if (!maps) {
    if (before != nullptr && after != nullptr && same(*before, *after)) return;
    Difference difference{key, {}, {}};
    if (before != nullptr) difference.before = *before;
    if (after != nullptr) difference.after = *after;
    out.push_back(std::move(difference));
    return;
  }
  const std::string prefix = key.empty() ? "" : key + ".";
  if (before != nullptr) {
    for (const auto& [name, value] : before->entries()) {
      compare(&value, after == nullptr ? nullptr : after->find(name), prefix + name, out);
    }
  }
  if (after == nullptr) return;
  for (const auto& [name, value] : after->entries()) {
    if (before == nullptr || before->find(name) == nullptr) {
      compare(nullptr, &value, prefix + name, out);
    }
  }
}

}  // namespace

std::vector<Difference> differences(const Node& before, const Node& after) {
  std::vector<Difference> out;
  compare(&before, &after, "", out);
  return out;
}

}  // namespace attnlab
