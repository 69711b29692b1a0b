// The section `attention` of a composition as a tree: `quest`, {use: quest, eps: 1e-3} or
//
//   {use: linear, layers: {first: quest, every_4: {use: standard}}}
//   {use: mine.py}, short for {use: python, file: mine.py}: a class in a Python file
//
// as it is written, composed or resolved. framework/experiment/part.h checks it.
#pragma once

#include <string>
#include <vector>

#include "framework/config/node.h"

namespace attnlab {

/// A plugin or a composition of `configs/attention` that a section names.
struct NamedMechanism {
  std::string key;   ///< where it stands: "attention", "attention.layers.first"
  std::string name;  ///< "quest", "lab/quest", or a `PythonName`
};

/// What a section names: first the mechanism of all other layers, then those of `layers`. Parts of
/// the section that are not sound are left out.
std::vector<NamedMechanism> mechanisms_in(const Node& section);

/// What folders and tables call it: `as`, or the names of its mechanisms, those of `layers` sorted
/// and each once: "linear+quest+standard". One in Python is called like its class where that is
/// named, else like its file: "mine". @throws ConfigError where it has no `use`.
std::string attention_label(const Node& section);

}  // namespace attnlab
