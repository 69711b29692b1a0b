// The build stamp: everything that host and plugin must agree on before code may be loaded.
#pragma once

#include <torch/version.h>

#include <string>

#include "framework/config/node.h"
#include "framework/contracts/attention.h"
#include "framework/contracts/dataset.h"
#include "framework/contracts/model.h"
#include "framework/contracts/task.h"
#include "framework/manifest/manifest_writer.h"

#ifndef ATTNLAB_LIBTORCH_SONAME
#error "build plugins with attnlab_add_plugin(): it passes what the stamp needs"
#endif

namespace attnlab::detail {

#define ATTNLAB_TEXT_(x) #x
#define ATTNLAB_TEXT(x) ATTNLAB_TEXT_(x)

#if defined(__SANITIZE_ADDRESS__)
#define ATTNLAB_BUILD "asan"
#elif defined(NDEBUG)
#define ATTNLAB_BUILD "release"
#else
#define ATTNLAB_BUILD "debug"
#endif

#if defined(__clang__)
#define ATTNLAB_COMPILER "Clang " ATTNLAB_TEXT(__clang_major__)
#else
#define ATTNLAB_COMPILER "GNU " ATTNLAB_TEXT(__GNUC__)
#endif

/// Writes the stamp of the code that is being compiled, a flat JSON map of texts and numbers. (The
/// hash of the public headers stands in a section of its own, linked in by attnlab_add_plugin(): in
/// here each changed header would compile everything again.)
constexpr void write_stamp(JsonText& out) {
  const auto size = [](std::size_t bytes) { return static_cast<std::int64_t>(bytes); };
  out.open('{');
  out.member("contract", std::int64_t{kContractVersion});
  out.member("compiler", ATTNLAB_COMPILER);
  out.member("cxx_abi", ATTNLAB_TEXT(__GXX_ABI_VERSION) "/" ATTNLAB_TEXT(_GLIBCXX_USE_CXX11_ABI));
  out.member("libtorch", TORCH_VERSION);
  out.member("libtorch_soname", ATTNLAB_LIBTORCH_SONAME);
  out.member("cuda", ATTNLAB_CUDA_VERSION);
  out.member("build", ATTNLAB_BUILD);
  out.member("sizeof_node", size(sizeof(Node)));
  out.member("sizeof_attention_input", size(sizeof(AttentionInput)));
  out.member("sizeof_attention_context", size(sizeof(AttentionContext)));
  out.member("sizeof_attention_shape", size(sizeof(AttentionShape)));
  out.member("sizeof_attention", size(sizeof(Attention)));
  out.member("sizeof_model", size(sizeof(Model)));
  out.member("sizeof_model_setup", size(sizeof(ModelSetup)));
  out.member("sizeof_dataset_info", size(sizeof(DatasetInfo)));
  out.member("sizeof_batch", size(sizeof(Batch)));
  out.close('}');
}

}  // namespace attnlab::detail
