#include "framework/host/registry.h"

#include <fmt/format.h>

#include <ATen/CPUGeneratorImpl.h>
#include <unistd.h>

#include <boost/dll/shared_library.hpp>
#include <exception>
#include <mutex>
#include <sstream>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/host/process_state.h"
#include "framework/host/working_folder.h"
#include "framework/manifest/python_file.h"

namespace attnlab {
namespace {

// The host's own stamp, in a section that `list` and `describe` read without loading this library.
struct HostStamp {
  static constexpr std::string text() {
    JsonText out;
    detail::write_stamp(out);
    return out.text();
  }
};
// Clang cannot compute with the std::string of GCC 12's library at compile time. What it builds
// with that, for fuzzing, has no stamp.
#if !defined(__clang__) || _GLIBCXX_RELEASE > 12
[[gnu::section(".attnlab.stamp"), gnu::used]] constexpr auto host_stamp =
    detail::embed<HostStamp>();
#endif

using EntryFunction = const PluginEntry*();

/// dlerror()'s own words from Boost.DLL's message, without the path that they begin with.
std::string loader_reason(const std::string& path, const std::string& what) {
  constexpr std::string_view kBefore = "dlerror system message: ";
  const std::size_t start = what.find(kBefore);
  if (start == std::string::npos) return what;
  const std::size_t end = what.rfind("): ");
  const std::string reason = what.substr(start + kBefore.size(), end - start - kBefore.size());
  return reason.rfind(path + ": ", 0) == 0 ? reason.substr(path.size() + 2) : reason;
}

std::string last_words;  // of the process, should the library that is being loaded end it

constexpr const char* kStaticObjectThrew =
    ": threw an exception from a static object's constructor while it was loaded";
constexpr const char* kStaticObjectRemedy = "; build that object when it is first used";

/// Whether an exception can leave a constructor of static objects depends on the C library, which
/// declares dlopen() to throw nothing, and on how its caller was compiled. Where it cannot, the
/// process ends, and all that can be done is to say whose fault it was.
class BlameForTermination {
 public:
  explicit BlameForTermination(const std::string& path) {
    // Written as it is: no stream makes it printable.
    last_words = fmt::format("{}{}, which ends the process{}\n", one_line(path), kStaticObjectThrew,
                             kStaticObjectRemedy);
    before_ = std::set_terminate([] {
      const ssize_t written = ::write(STDERR_FILENO, last_words.data(), last_words.size());
      (void)written;
      std::abort();
    });
  }
  ~BlameForTermination() { std::set_terminate(before_); }
  BlameForTermination(const BlameForTermination&) = delete;
  BlameForTermination& operator=(const BlameForTermination&) = delete;

 private:
  std::terminate_handler before_;
};

boost::dll::shared_library& open_library(const std::string& path) {
  const BlameForTermination blame(path);
  // Never closed, on purpose: see the header.
  auto* library = new boost::dll::shared_library();
  try {
    library->load(path, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  } catch (const boost::dll::fs::system_error& error) {
    throw PluginError(fmt::format(
        "{}: cannot be loaded: {}; build it with attnlab_add_plugin() and link what it uses", path,
        loader_reason(path, error.what())));
  } catch (const std::exception& error) {
    throw PluginError(
        fmt::format("{}{}: {}{}", path, kStaticObjectThrew, error.what(), kStaticObjectRemedy));
  } catch (...) {
    throw PluginError(path + kStaticObjectThrew + kStaticObjectRemedy);
  }
  return *library;
}

const PluginEntry* call_entry(const std::string& path, boost::dll::shared_library& library) {
  if (!library.has(kEntrySymbol)) {
    throw PluginError(fmt::format("{}: has no symbol '{}'; end the plugin with ATTNLAB_PLUGIN(...)",
                                  path, kEntrySymbol));
  }
  const PluginEntry* entry = nullptr;
  try {
    entry = library.get<EntryFunction>(kEntrySymbol)();
  } catch (const std::exception& error) {
    throw PluginError(
        fmt::format("{}: its entry threw an exception: {}; use the entry of ATTNLAB_PLUGIN(...), "
                    "which throws nothing",
                    path, error.what()));
  } catch (...) {
    throw PluginError(path +
                      ": its entry threw something that is not a std::exception; use the entry of "
                      "ATTNLAB_PLUGIN(...), which throws nothing");
  }
  if (entry == nullptr) {
    throw PluginError(path + ": its entry returned nothing; end it with ATTNLAB_PLUGIN(...)");
  }
  return entry;
}

/// What a hand-written entry may lack.
void check_entry(const Candidate& plugin, const PluginEntry& entry) {
  const Manifest& manifest = *plugin.manifest;
  const std::string id = entry.id == nullptr ? "" : entry.id;
  if (entry.kind != manifest.kind || manifest.id != id) {
    throw PluginError(fmt::format(
        "{}: its code is {} '{}', its manifest says {} '{}'; rebuild it with attnlab_add_plugin()",
        plugin.path, name_of(entry.kind), id, name_of(manifest.kind), manifest.id));
  }
  const bool builds[] = {entry.attention != nullptr, entry.model != nullptr, entry.task != nullptr,
                         entry.dataset != nullptr};
  if (!builds[static_cast<std::size_t>(entry.kind)]) {
    throw PluginError(fmt::format(
        "{}: its entry does not say how to build the {}; end it with ATTNLAB_PLUGIN(...)",
        plugin.path, name_of(entry.kind)));
  }
}

const PluginEntry& enter(const Candidate& plugin) {
  const ProcessState before;
  const PluginEntry* entry = nullptr;
  std::exception_ptr failure;
  try {
    entry = call_entry(plugin.path, open_library(plugin.path));
  } catch (const PluginError&) {
    failure = std::current_exception();
  }
  const std::vector<std::string> changes = before.changes();
  before.restore();
  if (failure) std::rethrow_exception(failure);
  if (!changes.empty()) {
    throw PluginError(
        fmt::format("{}: changes {} of the whole process while it loads, which would change other "
                    "parts' results; remove that from its start-up code",
                    plugin.path, join(changes, " and ")));
  }
  if (plugin.manifest) check_entry(plugin, *entry);
  return *entry;
}

/// Enters a library, or refuses it as before: its static objects are built once in the life of the
/// process, so a second look would find nothing wrong.
const PluginEntry& enter_once(const Candidate& plugin) {
  static std::mutex mutex;
  static std::map<std::string, std::string> refused;  // by path
  const std::lock_guard lock(mutex);
  const auto known = refused.find(plugin.path);
  if (known != refused.end()) throw PluginError(known->second);
  try {
    return enter(plugin);
  } catch (const PluginError& error) {
    refused[plugin.path] = error.what();
    throw;
  }
}

/// An error that has its place already: a model passes on what its attention found wrong.
class PlacedError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// The value of an option ("group.member" for one of a group); null where there is none.
const Node* option_at(const Node& options, const std::string& path) {
  const Node* value = &options;
  std::istringstream names(path);
  for (std::string name; value != nullptr && std::getline(names, name, '.');) {
    value = value->is_map() ? value->find(name) : nullptr;
  }
  return value;
}

/// Builds a part; an option that the part finds wrong gets its place. One that changes the working
/// folder is refused: runs' folders are named after parts are built.
template <class Build>
auto build_part(const Part& part, Build&& build) {
  const std::string who = fmt::format("{} '{}': ", name_of(part.kind), part.name);
  const WorkingFolder home;
  const auto build_and_return = [&] {
    try {
      return build();
    } catch (...) {
      try {
        home.check(who);        // goes back
      } catch (const Error&) {  // what was thrown first counts
      }
      throw;
    }
  };
  try {
    auto built = build_and_return();
    if (!built)
      throw PluginError(fmt::format("{}: {}its factory returned nothing", part.path, who));
    home.check(fmt::format("{}: {}its construction", part.path, who));
    return built;
  } catch (const OptionError& error) {
    const Node* value = option_at(part.options, error.option());
    throw PlacedError(value == nullptr ? part.place : value->place(), who + error.what());
  } catch (const PlacedError&) {
    throw;
  } catch (const ConfigError& error) {
    throw PlacedError(part.place, who + error.what());
  } catch (const Error&) {
    throw;  // names its own place already
  } catch (const std::exception& error) {
    throw PluginError(fmt::format("{}: {}cannot be built: {}", part.path, who, error.what()));
  } catch (...) {
    throw PluginError(fmt::format(
        "{}: {}cannot be built: it threw something that is not a std::exception", part.path, who));
  }
}

/// The mechanism that a composition has in one layer.
const Part& mechanism_in(const Part& attention, const AttentionShape& shape) {
  try {
    return mechanism_of(attention, shape.layer, shape.layers);
  } catch (const ConfigError& error) {
    throw PlacedError(error.what());
  }
}

/// The first layer of a stack with this mechanism, one that `shape`'s layer has.
std::int64_t first_layer_with(const Part& mechanism, const Part& attention,
                              const AttentionShape& shape) {
  std::int64_t layer = 0;
  while (layer < shape.layer && mechanism_of(attention, layer, shape.layers).id != mechanism.id) {
    ++layer;
  }
  return layer;
}

/// What a part's entry gets. Of an installed Python file: the file, its class, and the options.
Node options_for(const Part& part) {
  if (!is_python_name(part.path) || names_file(part)) return part.options;
  const PythonName python = parse_python_name(part.path);
  Node section = Node::map(part.place);
  section.set("file", Node::scalar(python.file, part.place, /*quoted=*/true));
  section.set("class", Node::scalar(python.name, part.place, /*quoted=*/true));
  section.set("options", part.options);
  return section;
}

Positions positions_of(const PositionsOptions& asked) {
  using Kind = Positions::Kind;
  const Kind kind = asked.use == "rotary"  ? Kind::rotary
                    : asked.use == "alibi" ? Kind::alibi
                    : asked.use == "t5"    ? Kind::t5
                                           : Kind::none;
  return {kind, asked.base, asked.buckets, asked.max_distance};
}

}  // namespace

const PluginEntry& Registry::load(Kind kind, const std::string& name) {
  const Candidate& plugin = catalogue_.find(kind, name);
  const bool python = is_python_name(plugin.path);
  const std::string path = python ? python_library() : plugin.path;
  const auto known = entries_.find(path);
  if (known != entries_.end()) return *known->second;
  Candidate library = plugin;
  if (python) library = {path, {}, "", ""};  // its parts have manifests, it has none
  const PluginEntry& entry = enter_once(library);
  entries_[path] = &entry;
  return entry;
}

std::shared_ptr<Dataset> Registry::dataset(const Part& part, const DatasetSetup& setup) {
  const PluginEntry& entry = load(Kind::dataset, lookup_name(part));
  return build_part(part, [&] { return entry.dataset(options_for(part), setup); });
}

std::shared_ptr<Task> Registry::task(const Part& part, const TaskSetup& setup) {
  const PluginEntry& entry = load(Kind::task, part.id);
  return build_part(part, [&] { return entry.task(part.options, setup); });
}

std::shared_ptr<Model> Registry::model(const Part& part, const ModelSetup& setup) {
  const PluginEntry& entry = load(Kind::model, lookup_name(part));
  return build_part(part, [&] { return entry.model(options_for(part), setup); });
}

std::shared_ptr<Attention> Registry::attention(const Part& part, const AttentionShape& shape) {
  const PluginEntry& entry = load(Kind::attention, lookup_name(part));
  auto built = build_part(part, [&] { return entry.attention(options_for(part), shape); });
  const Manifest& manifest = *catalogue_.find(Kind::attention, lookup_name(part)).manifest;
  built->traits().each([&](std::string_view trait, bool honoured) {
    const auto declared = manifest.traits.find(std::string(trait));
    const bool says = declared != manifest.traits.end() && declared->second;
    if (says == honoured) return;
    if (trait == "ordered" && !honoured && reads_both_ways(part)) return;
    throw PluginError(
        fmt::format("{}: attention '{}': the trait '{}' of its code differs from its kTraits; give "
                    "both the same",
                    part.path, part.name, trait));
  });
  return built;
}

AttentionBuilder Registry::attention_builder(const Part& part, const RandomStreams& streams) {
  return [this, part, streams](const AttentionShape& shape) {
    const Part& own = mechanism_in(part, shape);
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const Tensor before = generator.get_state();
    generator.set_current_seed(streams.key("attention", static_cast<std::uint64_t>(shape.layer)));
    AttentionShape placed = shape;
    placed.first_layer = first_layer_with(own, part, shape);
    auto built = attention(own, placed);
    generator.set_state(before);
    built->set_projection({part.projection.key_heads, part.projection.rank});
    built->set_positions(positions_of(part.positions));
    return built;
  };
}

}  // namespace attnlab
