// ATTNLAB_PLUGIN: what makes a class a plugin. Included through framework/plugin.h.
#pragma once

#include <memory>
#include <string>
#include <type_traits>

#include "framework/contracts/attention.h"
#include "framework/contracts/dataset.h"
#include "framework/contracts/model.h"
#include "framework/contracts/task.h"
#include "framework/host/stamp.h"
#include "framework/manifest/manifest_writer.h"

namespace attnlab {

/// What a plugin's one exported function returns: how to build the part. Exactly one is set.
struct PluginEntry {
  Kind kind;
  const char* id;
  std::shared_ptr<Attention> (*attention)(const Node& options, const AttentionShape&) = nullptr;
  std::shared_ptr<Model> (*model)(const Node& options, const ModelSetup&) = nullptr;
  std::shared_ptr<Task> (*task)(const Node& options, const TaskSetup&) = nullptr;
  std::shared_ptr<Dataset> (*dataset)(const Node& options, const DatasetSetup&) = nullptr;
};

namespace detail {

template <Kind kind, class Class, class Options>
constexpr std::string manifest_text(const PluginInfo& info) {
  JsonText out;
  out.open('{');
  out.member("id", info.id).member("kind", name_of(kind)).member("version", info.version);
  out.member("summary", info.summary).member("citation", info.citation);
  out.member("licence", info.licence);
  out.member("takes", info.takes).member("gives", info.gives).member("needs", info.needs);
  if constexpr (kind == Kind::model) out.member("stacks", info.stacks);
  if constexpr (kind == Kind::attention) {
    out.key("traits").open('{');
    Class::kTraits.each([&](std::string_view name, bool value) { out.member(name, value); });
    out.close('}');
  }
  if constexpr (kind == Kind::model || kind == Kind::task) out.member("ensemble", info.ensemble);
  if constexpr (kind == Kind::model) out.member("recompute", info.recompute);
  out.key("options");
  write_schema<Options>(out);
  out.key("stamp");
  write_stamp(out);
  return out.close('}').text();
}

template <class Base, class Class, class Options, class Setup>
std::shared_ptr<Base> build(const Node& options, const Setup& setup) {
  return std::make_shared<Class>(read_options<Options>(options), setup);
}

template <Kind kind, class Class, class Options>
PluginEntry entry(const char* id) {
  PluginEntry entry{kind, id};
  if constexpr (kind == Kind::attention) {
    static_assert(std::is_base_of_v<Attention, Class>);
    entry.attention = &build<Attention, Class, Options, AttentionShape>;
  } else if constexpr (kind == Kind::model) {
    static_assert(std::is_base_of_v<Model, Class>);
    entry.model = &build<Model, Class, Options, ModelSetup>;
  } else if constexpr (kind == Kind::task) {
    static_assert(std::is_base_of_v<Task, Class>);
    entry.task = &build<Task, Class, Options, TaskSetup>;
  } else {
    static_assert(std::is_base_of_v<Dataset, Class>);
    entry.dataset = &build<Dataset, Class, Options, DatasetSetup>;
  }
  return entry;
}

}  // namespace detail
}  // namespace attnlab

/// ATTNLAB_PLUGIN(kind, Class, Options, {.id = "lab/name", ...}): see framework/plugin.h.
#ifndef ATTNLAB_LINT
#define ATTNLAB_PLUGIN(kind, Class, Options, ...)                                            \
  namespace {                                                                                \
  struct AttnlabDeclaration {                                                                \
    static constexpr ::attnlab::PluginInfo kInfo = __VA_ARGS__;                              \
    static constexpr std::string text() {                                                    \
      return ::attnlab::detail::manifest_text<::attnlab::Kind::kind, Class, Options>(kInfo); \
    }                                                                                        \
  };                                                                                         \
  [[gnu::section(".attnlab.manifest"), gnu::used]] constexpr auto attnlab_manifest =         \
      ::attnlab::detail::embed<AttnlabDeclaration>();                                        \
  }                                                                                          \
  extern "C" [[gnu::visibility("default")]] const ::attnlab::PluginEntry* attnlab_plugin();  \
  const ::attnlab::PluginEntry* attnlab_plugin() {                                           \
    static const ::attnlab::PluginEntry entry =                                              \
        ::attnlab::detail::entry<::attnlab::Kind::kind, Class, Options>(                     \
            AttnlabDeclaration::kInfo.id.data());                                            \
    return &entry;                                                                           \
  }
#else  // clang 14's checks cannot evaluate std::string at compile time
#define ATTNLAB_PLUGIN(kind, Class, Options, ...)                                 \
  static_assert(::attnlab::OptionsStruct<Options>);                               \
  [[maybe_unused]] static const ::attnlab::PluginInfo attnlab_info = __VA_ARGS__; \
  [[maybe_unused]] static const auto attnlab_entry =                              \
      &::attnlab::detail::entry<::attnlab::Kind::kind, Class, Options>;
#endif
