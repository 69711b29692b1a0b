#include "framework/experiment/layer_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "framework/config/node.h"
#include "framework/experiment/names.h"

namespace attnlab {
namespace {

using Item = LayerChoice::Item;

constexpr std::string_view kEvery = "every_";

/// A whole number of [low, kMostLayers]; none for any other text.
std::optional<std::int64_t> number_in(std::string_view text, std::int64_t low) {
  const bool digits =
      !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  if (!digits) return std::nullopt;
  const std::optional<std::int64_t> number = Node::scalar(std::string(text)).as_int();
  return number && *number >= low && *number <= kMostLayers ? number : std::nullopt;
}

std::optional<Item> item_of(std::string_view word) {
  if (word == "first") return Item{};
  if (word == "last") return Item{.last = true};
  if (word.starts_with(kEvery)) {
    const auto every = number_in(word.substr(kEvery.size()), 2);
    return every ? std::optional<Item>(Item{.every = *every}) : std::nullopt;
  }
  const std::size_t dash = word.find('-');
  const auto low = number_in(word.substr(0, dash), 0);
  const auto high =
      dash == std::string_view::npos ? low : number_in(word.substr(dash + 1), low.value_or(0));
  if (!low || !high || *high == kMostLayers) return std::nullopt;
  return Item{.low = *low, .high = *high};
}

/// Layers that a stack has at least where the item names one of it, and all that it names by
/// number.
std::int64_t fewest_layers(const Item& item) {
  return item.last ? 1 : item.every > 0 ? item.every : item.high + 1;
}

/// What an item names that a stack lacks, and what to do; empty where it has it.
/// @param key  as `check_choices` has it
std::string lack(const Item& item, std::int64_t layers, const std::string& key) {
  if (fewest_layers(item) <= layers) return "";
  const std::string stack =
      fmt::format("a stack of {}{}", layers, key.empty() ? "" : " (" + key + ")");
  if (item.every > 0) {
    return fmt::format("chooses no layer of {}; take a smaller number, or make it deeper", stack);
  }
  return fmt::format("there is no layer {} in {}; name some of 0 to {}, or make it deeper",
                     item.high, stack, layers - 1);
}

std::string named(const LayerChoice& choice) { return "attention.layers." + choice.key; }

}  // namespace

bool LayerChoice::has(std::int64_t layer, std::int64_t layers) const {
  return std::any_of(items.begin(), items.end(), [&](const Item& item) {
    if (item.last) return layer + 1 == layers;
    if (item.every > 0) return (layer + 1) % item.every == 0;
    return item.low <= layer && layer <= item.high;
  });
}

LayerChoice parse_layer_choice(const std::string& key, const Place& place) {
  LayerChoice choice{key, place, {}};
  const std::string_view text = key;
  for (std::size_t at = 0; key.size() <= kLongestName && at != std::string_view::npos;) {
    const std::size_t plus = text.find('+', at);
    const auto item = item_of(text.substr(at, plus == std::string_view::npos ? plus : plus - at));
    if (!item) break;
    choice.items.push_back(*item);
    if (plus == std::string_view::npos) return choice;
    at = plus + 1;
  }
  throw ConfigError(
      place, fmt::format("attention.layers: '{}' chooses no layers; write first, last, every_4 "
                         "(each fourth), 2, 4-7 (layers count from 0, up to {}), or several, as "
                         "first+last",
                         key, kMostLayers - 1));
}

void check_choices(const std::vector<const LayerChoice*>& choices,
                   std::optional<std::int64_t> layers, Problems& problems, const std::string& key) {
  const std::size_t before = problems.size();
  std::int64_t fewest = 1;
  for (const LayerChoice* choice : choices) {
    for (const Item& item : choice->items) {
      fewest = std::max(fewest, fewest_layers(item));
      const std::string wrong = layers ? lack(item, *layers, key) : "";
      if (wrong.empty()) continue;
      add_problem(problems, choice->place, fmt::format("{}: {}", named(*choice), wrong));
      break;
    }
  }
  if (problems.size() > before) return;
  // The last layer of a stack that is not known is none of the first ones.
  const std::int64_t looked_at = layers.value_or(fewest);
  const std::int64_t depth = layers.value_or(std::numeric_limits<std::int64_t>::max());
  for (std::size_t i = 1; i < choices.size(); ++i) {
    for (std::int64_t layer = 0; layer < looked_at; ++layer) {
      if (!choices[i]->has(layer, depth)) continue;
      const auto other =
          std::find_if(choices.begin(), choices.begin() + static_cast<std::ptrdiff_t>(i),
                       [&](const LayerChoice* one) { return one->has(layer, depth); });
      if (*other == choices[i]) continue;
      add_problem(problems, choices[i]->place,
                  fmt::format("{}: names layer {}, which {} names, too ({}); a layer has one "
                              "mechanism: take it out of one of them",
                              named(*choices[i]), layer, named(**other), (*other)->place.str()));
      break;
    }
  }
}

}  // namespace attnlab
