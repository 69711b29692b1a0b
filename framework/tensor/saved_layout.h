// How a layer's weights lie in files, where other programs lay them otherwise.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// A layer that says so. What runs save has its entry in the metadata, and `init:` asks one layer
/// of each entry for a file's tensors.
class SavedLayout {
 public:
  virtual ~SavedLayout() = default;
  /// The entry of a file's metadata and what it says of this layout.
  virtual std::pair<std::string, std::string> layout_entry() const = 0;
  /// A file's tensors, those of such layers in this layout.
  /// @param metadata  the file's
  /// @param path      for messages
  /// @throws DataError for a layout that is not known, and where nothing says which it is.
  virtual NamedTensors in_layout(const NamedTensors& tensors,
                                 const std::map<std::string, std::string>& metadata,
                                 const std::string& path) const = 0;
};

/// The layouts of a module's layers, by entry.
inline std::map<std::string, const SavedLayout*> saved_layouts(const torch::nn::Module& module) {
  std::map<std::string, const SavedLayout*> layouts;
  for (const auto& layer : module.modules(/*include_self=*/false)) {
    const auto* layout = dynamic_cast<const SavedLayout*>(layer.get());
    if (layout != nullptr) layouts.emplace(layout->layout_entry().first, layout);
  }
  return layouts;
}

}  // namespace attnlab
