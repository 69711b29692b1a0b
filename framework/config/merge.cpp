#include "framework/config/merge.h"

#include <fmt/format.h>

#include <set>

#include "framework/base/text.h"

namespace attnlab {
namespace {

/// Of all lists as they were before `key+` or `key-` changed them, each with its history.
constexpr std::size_t kMostEdited = std::size_t{256} << 20;

/// The new value takes over the old one's history, with the old value as its last step.
Node succeeding(const Node& old, Node value) {
  std::vector<Origin> history = old.history();
  history.push_back({old.place(), to_flow(old)});
  history.insert(history.end(), value.history().begin(), value.history().end());
  value.history() = std::move(history);
  return value;
}

Node map_of(const std::string& key, Node value) {
  Node map = Node::map(value.place());
  map.set(key, std::move(value));
  return map;
}

bool names_other_plugin(const Node& base, const Node& over) {
  const Node* before = base.find("use");
  const Node* after = over.find("use");
  return before != nullptr && after != nullptr && to_flow(*before) != to_flow(*after);
}

/// `attention: quest` is short for `attention: {use: quest}`.
Node used(const Node& name) { return map_of("use", name); }

/// A word that meets a map can only be the short form of one (unless it refers to something).
bool names_plugin(const Node& node) {
  return node.is_scalar() && !node.as_double() && !node.as_bool() &&
         node.text().find("${") == std::string::npos;
}

/// Whether a key holds changes of something else: those of a suite, or of an entry of `evaluate`.
bool waits(const std::string& at, const std::string& key) {
  const std::string evaluate = "evaluate.";
  if (at.empty()) return key == "set" || key == "fallback";
  return key == "set" && at.rfind(evaluate, 0) == 0 &&
         at.find('.', evaluate.size()) == std::string::npos;
}

}  // namespace

std::string key_below(const std::string& at, const std::string& key) {
  return at.empty() ? key : fmt::format("{}.{}", at, key);
}

void Merger::merge(Node& base, const Node& over, const std::string& at) {
  if (names_other_plugin(base, over)) start_over(base, over, at);
  for (const auto& [key, value] : over.entries()) {
    try {
      merge_entry(base, key, value, over.key_place(key), at);
    } catch (const ConfigError& error) {
      problems_.push_back(error.what());
    }
  }
}

/// Another plugin has other options.
void Merger::start_over(Node& base, const Node& over, const std::string& at) {
  const Place& place = over.find("use")->place();
  for (const auto& [key, value] : base.entries()) {
    if (key != "use") edits_.push_back({Edit::Kind::drop, key_below(at, key), place, value});
  }
  Node fresh = succeeding(base, Node::map(over.place()));
  fresh.set("use", *base.find("use"));  // its history shows the plugin that was there before
  base = std::move(fresh);
}

void Merger::merge_entry(Node& base, const std::string& key, const Node& value,
                         const Place& key_place, const std::string& at) {
  if (key.size() > 1 && key.back() == '+') {
    return append(base, key.substr(0, key.size() - 1), value, key_place, at);
  }
  if (key.size() > 1 && key.back() == '-') {
    return remove(base, key.substr(0, key.size() - 1), value, key_place, at);
  }
  if (waits(at, key)) return postpone(base, key, value);
  const std::string path = key_below(at, key);
  Node* present = base.find(key);
  if (present != nullptr && value.is_map() && names_plugin(*present)) *present = used(*present);
  if (present == nullptr) {
    base.set(key, applied(value, path));
  } else if (present->is_map() && value.is_map()) {
    merge(*present, value, path);
  } else if (present->is_map() && names_plugin(value) && present->find("use") != nullptr) {
    merge(*present, used(value), path);
  } else {
    if (present->is_map()) {
      edits_.push_back({Edit::Kind::drop, path, value.place(), *present});
    }
    base.set(key, succeeding(*present, applied(value, path)));
  }
  base.set_key_place(key, key_place);
}

/// Adds to the changes that a suite makes in experiments: what appends and removes there waits
/// for the experiment.
void Merger::postpone(Node& base, const std::string& key, const Node& change) {
  Node* present = base.find(key);
  const std::string name = key.substr(0, key.find_last_not_of("+-") + 1);
  const bool edits = name != key && !name.empty();
  if (edits && base.find(name) != nullptr) {
    merge(base, map_of(key, change), "");
  } else if (present == nullptr) {
    base.set(key, change);
  } else if (edits && present->is_list() && change.is_list()) {
    present->items().insert(present->items().end(), change.items().begin(), change.items().end());
  } else if (present->is_map() && change.is_map() && !names_other_plugin(*present, change)) {
    for (const auto& [inner, value] : change.entries()) postpone(*present, inner, value);
  } else {
    base.set(key, succeeding(*present, change));
  }
  if (edits) return;
  base.erase(key + "+");
  base.erase(key + "-");
}

/// Maps are merged even into nothing, so that `key+` inside them is applied.
Node Merger::applied(const Node& value, const std::string& at) {
  if (!value.is_map()) return value;
  Node fresh = Node::map(value.place());
  fresh.history() = value.history();
  merge(fresh, value, at);
  return fresh;
}

void Merger::append(Node& base, const std::string& key, const Node& extra, const Place& key_place,
                    const std::string& at) {
  if (!extra.is_list()) {
    throw ConfigError(extra.place(),
                      fmt::format("'{}+' appends to a list; write [{}]", key, to_flow(extra)));
  }
  const Node* present = base.find(key);
  if (present == nullptr || present->is_null()) {
    base.set(key, present == nullptr ? extra : succeeding(*present, extra));
    base.set_key_place(key, key_place);
    return;
  }
  if (!present->is_list()) {
    throw ConfigError(extra.place(),
                      fmt::format("'{}+' appends to a list, but '{}' is {} ({})", key, key,
                                  to_flow(*present), present->place().str()));
  }
  note_change_of(*present, key + "+", extra);
  Node longer = *present;
  longer.history().clear();  // `succeeding` adds it
  longer.items().insert(longer.items().end(), extra.items().begin(), extra.items().end());
  longer.set_place(extra.place());
  edits_.push_back({Edit::Kind::append, key_below(at, key), extra.place(), *present});
  base.set(key, succeeding(*present, std::move(longer)));
}

void Merger::remove(Node& base, const std::string& key, const Node& what, const Place& key_place,
                    const std::string& at) {
  const Node* present = base.find(key);
  if (present == nullptr) {
    std::vector<std::string> names;
    for (const auto& [name, value] : base.entries()) names.push_back(name);
    throw ConfigError(key_place, fmt::format("'{}-' removes '{}', which is not there{}", key, key,
                                             suggestion(key, names)));
  }
  if (what.is_null()) {
    edits_.push_back({Edit::Kind::remove, key_below(at, key), key_place, *present});
    base.erase(key);
    return;
  }
  if (!what.is_list() || !present->is_list()) {
    throw ConfigError(
        what.place(),
        fmt::format("'{}-' removes items of a list (or, without a value, the key)", key));
  }
  note_change_of(*present, key + "-", what);
  std::set<std::string> kept;
  for (const Node& item : present->items()) kept.insert(to_flow(item));
  for (const Node& item : what.items()) {
    if (kept.erase(to_flow(item)) == 0) {
      throw ConfigError(item.place(), fmt::format("'{}' has no item {} to remove; it is {}", key,
                                                  to_flow(item), to_flow(*present)));
    }
  }
  Node shorter = *present;
  shorter.history().clear();
  std::erase_if(shorter.items(), [&](const Node& item) { return kept.count(to_flow(item)) == 0; });
  shorter.set_place(what.place());
  edits_.push_back({Edit::Kind::remove_items, key_below(at, key), what.place(), *present});
  base.set(key, succeeding(*present, std::move(shorter)));
}

/// @throws ConfigError where what is kept of earlier lists would be too large.
void Merger::note_change_of(const Node& list, const std::string& key, const Node& by) {
  if (edited_ <= kMostEdited) edited_ += bytes_in(list);
  if (edited_ <= kMostEdited) return;
  throw ConfigError(by.place(),
                    fmt::format("'{}': lists were changed so often, or are so long, that what "
                                "they were takes more than {} MiB; write the list out",
                                key, kMostEdited >> 20));
}

void merge(Node& base, const Node& over) {
  std::vector<Edit> edits;
  Problems problems;
  Merger(edits, problems).merge(base, over, "");
  if (!problems.empty()) throw ConfigError(problems);
}

}  // namespace attnlab
