// The one header of a plugin. A plugin is one class, one options struct and one line:
//
//   ATTNLAB_PLUGIN(attention, Quest, QuestOptions,
//                  {.id = "attnlab/quest",
//                   .version = "1.0.0",
//                   .summary = "softmax(Q K̄ᵀ) with unit keys",
//                   .citation = "...",
//                   .licence = "Apache-2.0"})
//
// The macro writes the manifest (with the options' schema) into the ELF section `.attnlab.manifest`
// at compile time, and exports the one symbol that the host calls. The class is built as
//   attention: Class(const Options&, const AttentionShape&)
//   model:     Class(const Options&, const ModelSetup&)
//   dataset:   Class(const Options&, const DatasetSetup&)
//   task:      Class(const Options&, const TaskSetup&)
// An attention states its traits as `static constexpr AttentionTraits kTraits`. Models, datasets
// and tasks list under `.takes` and `.gives` the fields and outputs they need and provide ("image",
// "class", "logits"), models under `.needs` the attention traits they rely on and under `.stacks`
// the options that say how deep they are, so that a mismatch is found before anything runs.
#pragma once

#include "framework/contracts/attention.h"
#include "framework/contracts/dataset.h"
#include "framework/contracts/model.h"
#include "framework/contracts/task.h"
#include "framework/host/declare.h"
