#include "framework/runs/published.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/config/node.h"

namespace attnlab {
namespace {

int decimals(const std::string& number) {
  constexpr std::size_t kMost = 17;  // a double has no more
  const std::size_t point = number.find('.');
  if (point == std::string::npos) return 0;
  const std::size_t end =
      std::min(number.find_first_not_of("0123456789", point + 1), number.size());
  return static_cast<int>(std::min(end - point - 1, kMost));
}

}  // namespace

const std::string* PublishedNumbers::find(const std::string& experiment,
                                          const std::string& attention) const {
  const auto row = values.find(experiment);
  if (row == values.end()) return nullptr;
  const auto value = row->second.find(attention);
  return value == row->second.end() ? nullptr : &value->second;
}

std::string PublishedNumbers::difference(const std::string& experiment,
                                         const std::string& attention,
                                         const std::string& baseline) const {
  const std::string* ours = find(experiment, attention);
  const std::string* theirs = find(experiment, baseline);
  if (ours == nullptr || theirs == nullptr) return "";
  const auto a = Node::scalar(*ours).as_double(), b = Node::scalar(*theirs).as_double();
  if (!a || !b) return "";
  return fmt::format("{:+.{}f}", *a - *b, std::max(decimals(*ours), decimals(*theirs)));
}

}  // namespace attnlab
