// Loads plugins and builds parts. The one place where plugin code enters the process. Parts in
// Python files are built by a library of their own (plugins/python).
//
// A library is loaded by Boost.DLL with all symbols bound at once, local to itself, and never
// unloaded: autograd nodes, deleters and exceptions point into it for ever. Its stamp was compared
// from the file before. A library that throws, lacks the entry or changes the state of the process
// (floating-point mode, default dtype, threads, random numbers) while loading is refused; the state
// is put back, and the others go on.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "framework/base/random.h"
#include "framework/experiment/experiment.h"
#include "framework/host/declare.h"

namespace attnlab {

class Registry {
 public:
  explicit Registry(Catalogue catalogue) : catalogue_(std::move(catalogue)) {}

  const Catalogue& catalogue() const { return catalogue_; }

  /// Loads a plugin (once) and returns its entry.
  /// @throws PluginError naming path, reason and remedy; each time it is asked for.
  const PluginEntry& load(Kind kind, const std::string& name);

  /// Build one part. @throws PluginError; ConfigError with the place of a bad option.
  std::shared_ptr<Dataset> dataset(const Part& part, const DatasetSetup& setup);
  std::shared_ptr<Task> task(const Part& part, const TaskSetup& setup);
  std::shared_ptr<Model> model(const Part& part, const ModelSetup& setup);
  std::shared_ptr<Attention> attention(const Part& part, const AttentionShape& shape);

  /// The attention factory of a model. Each layer's own parameters come from the stream
  /// ("attention", layer), so that the rest of the model starts from the same weights whatever the
  /// attention. Where `part` names other mechanisms for some layers, those have them; it throws a
  /// ConfigError with the key's place for layers that a stack does not have. Lives as long as this
  /// registry.
  AttentionBuilder attention_builder(const Part& part, const RandomStreams& streams);

 private:
  Catalogue catalogue_;
  std::map<std::string, const PluginEntry*> entries_;  // by path
};

}  // namespace attnlab
