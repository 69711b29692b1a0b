#include "framework/manifest/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "framework/base/text.h"
#include "framework/config/problems.h"
#include "framework/manifest/option_lookup.h"

namespace attnlab {
namespace {

std::string scalar_type_text(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionSpec::Type::boolean:
      return "bool";
    case OptionSpec::Type::integer:
      return "int";
    case OptionSpec::Type::real:
      return "float";
    case OptionSpec::Type::group:
      return "map";
    case OptionSpec::Type::map:
      return "map of names";
    case OptionSpec::Type::string:
      break;
  }
  return "string";
}

std::string expected_text(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionSpec::Type::boolean:
      return "true or false";
    case OptionSpec::Type::integer:
      return "an integer";
    case OptionSpec::Type::real:
      return "a number";
    default:
      return "a string";
  }
}

/// Why a text that looks like the type is not of it: YAML 1.1 habits.
std::string habit(const OptionSpec& spec, const Node& value) {
  const std::string& text = value.text();
  if (value.quoted()) return spec.type == OptionSpec::Type::string ? "" : " (remove the quotes)";
  if (spec.type == OptionSpec::Type::boolean) {
    for (const char* yes : {"yes", "Yes", "on", "On", "y"}) {
      if (text == yes) return "; did you mean 'true'?";
    }
    for (const char* no : {"no", "No", "off", "Off", "n"}) {
      if (text == no) return "; did you mean 'false'?";
    }
  }
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (digits && text.size() > 1 && text[0] == '0') {
    const std::size_t start = text.find_first_not_of('0');
    return fmt::format("; leading zeros are not allowed, did you mean '{}'?",
                       start == std::string::npos ? "0" : text.substr(start));
  }
  if (spec.type == OptionSpec::Type::integer && value.as_double()) {
    constexpr double kExact = 9007199254740992.0;  // 2^53
    const double number = *value.as_double();
    if (std::abs(number) <= kExact &&
        number == static_cast<double>(static_cast<std::int64_t>(number))) {
      return fmt::format("; did you mean '{}'?", static_cast<std::int64_t>(number));
    }
  }
  return "";
}

/// The empty choice has to be visible.
std::string choices_text(std::vector<std::string> choices, std::string_view separator) {
  for (std::string& choice : choices) {
    if (choice.empty()) choice = "''";
  }
  return join(choices, separator);
}

bool has_type(const OptionSpec& spec, const Node& value) {
  switch (spec.type) {
    case OptionSpec::Type::boolean:
      return value.as_bool().has_value();
    case OptionSpec::Type::integer:
      return value.as_int().has_value();
    case OptionSpec::Type::real:
      return value.as_double().has_value();
    default:
      return value.as_string().has_value();
  }
}

class Resolver {
 public:
  Resolver(const std::string& owner, Problems& problems) : owner_(owner), problems_(problems) {}

  Node map(const Node& given, const Schema& schema, const std::string& path) {
    Node resolved = Node::map(given.place());
    if (must_be_given(given)) {
      add(given.place(), path + ": a value must be given here (map of options)");
      return resolved;
    }
    if (!given.is_map() && !given.is_null()) {
      add(given.place(),
          fmt::format("{}: expected a map of options, found {}", path, to_flow(given)));
      return resolved;
    }
    report_unknown(given, schema, path);
    for (const OptionSpec& spec : schema) {
      const std::string name = path.empty() ? spec.name : fmt::format("{}.{}", path, spec.name);
      const Node* value = given.find(spec.name);
      if (spec.optional && (value == nullptr || value->is_null())) continue;
      if (spec.required && lacks(value, spec)) {
        add(value == nullptr || value->is_null() ? given.place() : value->place(),
            fmt::format("{}: {} needs a value ({}): {}", name, owner_, spec.type_text(),
                        spec.help));
      } else if (spec.list && spec.type == OptionSpec::Type::group) {
        resolved.set(spec.name, groups(value == nullptr ? Node() : *value, spec, name));
      } else if (spec.type == OptionSpec::Type::group) {
        resolved.set(spec.name, group(value == nullptr ? absent(given) : *value, spec, name));
      } else if (spec.type == OptionSpec::Type::map && holds_nothing(value, spec)) {
        continue;
      } else if (spec.type == OptionSpec::Type::map) {
        resolved.set(spec.name, named(value == nullptr ? Node() : *value, spec, name));
      } else if (value == nullptr || value->is_null()) {
        fill(resolved, spec);
      } else if (const Node full = as_list(*value, spec); valid(full, spec, name)) {
        resolved.set(spec.name, spec.type == OptionSpec::Type::string ? as_text(full) : full);
      }
    }
    return resolved;
  }

 private:
  bool valid(const Node& value, const OptionSpec& spec, const std::string& name) {
    if (!spec.list) return valid_scalar(value, spec, name);
    if (must_be_given(value)) return valid_scalar(value, spec, name);
    if (!value.is_list()) {
      add(value.place(), fmt::format("{}: expected a list, found {}; [{}] is a list of one", name,
                                     to_flow(value), to_flow(value)));
      return false;
    }
    bool all = true;
    for (const Node& item : value.items()) all &= valid_scalar(item, spec, name);
    return all;
  }

  /// A map of numbers that is empty is one that is not given.
  static bool holds_nothing(const Node* value, const OptionSpec& map) {
    if (map.options.front().holds_options()) return false;
    return value == nullptr || value->is_null() || (value->is_map() && value->entries().empty());
  }

  static bool lacks(const Node* value, const OptionSpec& spec) {
    if (value == nullptr || value->is_null()) return true;
    return spec.filled && value->text().empty() && value->items().empty() &&
           value->entries().empty();
  }

  /// The only item of a list stands for it where that is allowed.
  static Node as_list(const Node& value, const OptionSpec& spec) {
    if (!spec.single || value.is_list() || value.is_null()) return value;
    Node list = Node::list(value.place());
    list.items().push_back(value);
    return list;
  }

  /// What somebody else knows the keys of stays as it is.
  Node group(const Node& given, const OptionSpec& spec, const std::string& path) {
    return spec.options.empty() && given.is_map() ? given : map(given, spec.options, path);
  }

  Node groups(const Node& given, const OptionSpec& spec, const std::string& path) {
    Node list = as_list(given, spec);
    if (!list.is_list()) {
      if (!list.is_null()) {
        add(list.place(), fmt::format("{}: expected a list, found {}; [{}] is a list of one", path,
                                      to_flow(list), to_flow(list)));
      }
      return Node::list(list.place());
    }
    if (spec.options.empty()) return list;
    for (Node& item : list.items()) item = map(item, spec.options, path);
    return list;
  }

  /// A map of free names, in the order in which they are given.
  Node named(const Node& given, const OptionSpec& spec, const std::string& path) {
    if (given.is_null()) return Node::map({"default of " + owner_, 0, 0});
    Node resolved = Node::map(given.place());
    if (!given.is_map()) {
      add(given.place(),
          path + (must_be_given(given) ? ": a value must be given here (map of names)"
                                       : ": expected a map of names, found " + to_flow(given)));
      return resolved;
    }
    for (const auto& [name, value] : given.entries()) {
      if (!is_name(name)) {
        add(given.key_place(name),
            fmt::format(
                "{}: '{}' is not a name; use letters, digits, '_' and, inside the name, '-'", path,
                name));
        continue;
      }
      const OptionSpec& any = spec.options.front();
      const std::string whole = fmt::format("{}.{}", path, name);
      if (any.holds_options()) {
        resolved.set(name, map(value, any.options, whole));
      } else if (valid_scalar(value, any, whole)) {
        resolved.set(name, value);
      } else {
        continue;
      }
      resolved.set_key_place(name, given.key_place(name));
    }
    return resolved;
  }

  /// Names are words of keys: dots would split them, and `name-:` removes a key.
  static bool is_name(const std::string& text) {
    const auto plain = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    };
    return !text.empty() && std::all_of(text.begin(), text.end(), plain) && text.front() != '-' &&
           text.back() != '-';
  }

  void add(const Place& place, const std::string& what) { add_problem(problems_, place, what); }

  /// Stands for a group that is not given, where it would stand.
  static Node absent(const Node& parent) {
    Node node;
    node.set_place(parent.place());
    return node;
  }

  void report_unknown(const Node& given, const Schema& schema, const std::string& path) {
    for (const auto& [key, value] : given.entries()) {
      const auto named = [&name = key](const OptionSpec& spec) { return spec.name == name; };
      if (std::any_of(schema.begin(), schema.end(), named)) continue;
      const std::string where = path.empty() ? "" : path + ": ";
      add(given.key_place(key),
          fmt::format("{}unknown key '{}' of {}{}", where, key, owner_, suggest_key(key, schema)));
    }
  }

  /// A text that looks like a number or a truth gets quotes, so that `1.0` and `1` stay two texts
  /// wherever the tree is read without its schema.
  static Node as_text(Node value) {
    for (Node& item : value.items()) item = as_text(item);
    if (!value.as_double() && !value.as_bool()) return value;
    Node quoted = Node::scalar(value.text(), value.place(), true);
    quoted.history() = value.history();
    return quoted;
  }

  void fill(Node& resolved, const OptionSpec& spec) const {
    Node value = spec.default_value;
    value.set_place({"default of " + owner_, 0, 0});
    resolved.set(spec.name, std::move(value));
  }

  bool valid_scalar(const Node& value, const OptionSpec& spec, const std::string& name) {
    if (must_be_given(value)) {
      add(value.place(),
          fmt::format("{}: a value must be given here ({})", name, spec.type_text()));
      return false;
    }
    if (!has_type(spec, value)) {
      add(value.place(), fmt::format("{}: expected {}, found {}{}", name, expected_text(spec),
                                     to_flow(value), value.is_scalar() ? habit(spec, value) : ""));
      return false;
    }
    if (!spec.choices.empty()) {
      const auto found = std::find(spec.choices.begin(), spec.choices.end(), value.text());
      if (found == spec.choices.end()) {
        add(value.place(),
            fmt::format("{}: '{}' is not one of {}{}", name, value.text(),
                        choices_text(spec.choices, ", "), [&] {
                          // PyTorch's word for what people call a GPU.
                          const std::string meant = value.text() == "gpu" ? "cuda" : value.text();
                          const std::string near = nearest(meant, spec.choices);
                          return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
                        }()));
        return false;
      }
    }
    const auto number = value.as_double();
    const bool numeric =
        spec.type == OptionSpec::Type::integer || spec.type == OptionSpec::Type::real;
    if (numeric && number &&
        !((!spec.low || *number >= *spec.low) && (!spec.high || *number <= *spec.high))) {
      add(value.place(),
          fmt::format("{}: {} is out of range; expected {}", name, value.text(), spec.type_text()));
      return false;
    }
    if (numeric && number && std::isinf(*number) && (spec.low || spec.high)) {
      add(value.place(),
          fmt::format("{}: {} is not finite; expected {}", name, value.text(), spec.type_text()));
      return false;
    }
    return true;
  }

  const std::string& owner_;
  Problems& problems_;
};

}  // namespace

bool must_be_given(const Node& value) {
  return value.is_scalar() && !value.quoted() && value.text() == "???";
}

std::string OptionSpec::type_text() const {
  if (list && type == Type::group && options.empty()) return "list";
  std::string text = single ? "one or a list of " : list ? "list of " : "";
  if (!choices.empty()) return text + choices_text(choices, " | ");
  text += scalar_type_text(*this);
  if (low && high) return fmt::format("{} in [{}, {}]", text, shortest(*low), shortest(*high));
  if (low) return fmt::format("{} >= {}", text, shortest(*low));
  if (high) return fmt::format("{} <= {}", text, shortest(*high));
  return text;
}

OptionSpec make_option(std::string name, OptionSpec::Type type, std::string help) {
  OptionSpec spec;
  spec.name = std::move(name);
  spec.type = type;
  spec.help = std::move(help);
  return spec;
}

OptionSpec make_group(std::string name, Schema options, std::string help) {
  OptionSpec spec = make_option(std::move(name), OptionSpec::Type::group, std::move(help));
  spec.options = std::move(options);
  return spec;
}

Node resolve_options(const Node& given, const Schema& schema, const std::string& path,
                     const std::string& owner, Problems& problems) {
  return Resolver(owner, problems).map(given, schema, path);
}

}  // namespace attnlab
