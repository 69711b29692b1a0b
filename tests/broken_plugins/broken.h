// What the broken plugins are made of: a sound attention, and the two halves of ATTNLAB_PLUGIN
// apart, for files in which one of them must be missing or wrong.
#pragma once

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab::broken {

/// Nothing is wrong with this one.
class Sound final : public DotProductAttention {
 public:
  Sound(const NoOptions&, const AttentionShape& shape) : DotProductAttention(shape) {}
};

constexpr PluginInfo info(std::string_view id) {
  return {.id = id,
          .version = "1.0.0",
          .summary = "broken on purpose",
          .citation = "none",
          .licence = "Apache-2.0"};
}

}  // namespace attnlab::broken

/// The manifest of a sound attention, with the stamp of this build, and no entry.
#define BROKEN_MANIFEST(id)                                                                    \
  namespace {                                                                                  \
  struct Declaration {                                                                         \
    static constexpr std::string text() {                                                      \
      return ::attnlab::detail::manifest_text<::attnlab::Kind::attention,                      \
                                              ::attnlab::broken::Sound, ::attnlab::NoOptions>( \
          ::attnlab::broken::info(id));                                                        \
    }                                                                                          \
  };                                                                                           \
  [[gnu::section(".attnlab.manifest"), gnu::used]] constexpr auto manifest =                   \
      ::attnlab::detail::embed<Declaration>();                                                 \
  }

/// The head of the exported function; its body follows.
#define BROKEN_ENTRY()                                                                      \
  extern "C" [[gnu::visibility("default")]] const ::attnlab::PluginEntry* attnlab_plugin(); \
  const ::attnlab::PluginEntry* attnlab_plugin()

/// A whole plugin, for files in which something else goes wrong.
#define BROKEN_PLUGIN(Class, id) \
  ATTNLAB_PLUGIN(attention, Class, ::attnlab::NoOptions, ::attnlab::broken::info(id))
