// How kernels of sparse convolutions lie in files: what is written, and what `init:` makes of it.
#include "framework/nn/points/sparse_convolution.h"
#include "framework/train/checkpoint.h"
#include "framework/train/initialise.h"
#include "tests/support/plugins.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::kernel_layout_test {
namespace {

using attnlab::testing::mentions;
using testing::clouds;
using ::testing::HasSubstr;
using testing::message_of;

/// A classifier with so many channels; kernels [dim, 3, 3, 3, dim], and [dim, 5, 5, 5, 4] first.
std::shared_ptr<Model> classifier(std::int64_t dim) {
  DatasetInfo data;
  data.name = "clouds";
  data.classes = 2;
  data.fields = {{"grid@voxel", {-1, 3}, at::kLong}, {"feature@voxel", {-1, 4}}};
  return testing::make_model("point_transformer", data,
                             "{encoder_depths: [1], encoder_dims: [" + std::to_string(dim) +
                                 "], encoder_heads: [1], head: cloud}");
}

/// A model's tensors, its kernels as spconv 1 has them.
NamedTensors of_spconv1(const Model& model) {
  NamedTensors tensors;
  for (const auto& item : model.named_parameters()) {
    const Tensor tensor = item.value().detach();
    tensors.set(item.key(),
                tensor.dim() == 5 ? tensor.permute({1, 2, 3, 4, 0}).contiguous() : tensor.clone());
  }
  for (const auto& item : model.named_buffers()) tensors.set(item.key(), item.value());
  return tensors;
}

class KernelLayouts : public ::testing::Test {
 protected:
  /// A model of so many channels that begins with a file.
  std::shared_ptr<Model> begun(std::int64_t dim, const TensorFile& file) {
    InitOptions options;
    options.from = folder_ / "weights.safetensors";
    write_safetensors(options.from, file);
    testing::TinyParts parts = clouds();
    parts.model = [&] { return classifier(dim); };
    BuiltRun run = testing::tiny_run(parts, testing::tiny_options());
    run.experiment.init = options;
    initialise(run, RunFolder(folder_ / "run"), testing::registry().catalogue());
    return run.model;
  }

  static void expect_same(const Model& one, const Model& other) {
    for (const auto& item : one.named_parameters()) {
      EXPECT_TRUE(other.named_parameters()[item.key()].equal(item.value())) << item.key();
    }
  }

  testing::TempFolder folder_;
};

TEST_F(KernelLayouts, AreWrittenIntoWhatRunsSave) {
  const auto model = classifier(8);
  const std::string path = folder_ / "best.safetensors";
  write_weights(path, {{"model.", model.get()}}, {"0123"});
  EXPECT_EQ(read_sealed(path).metadata.at("sparse_convolution"), "out,x,y,z,in");
  const auto plain = clouds().model();
  write_weights(path, {{"model.", plain.get()}}, {"0123"});
  EXPECT_EQ(read_sealed(path).metadata.count("sparse_convolution"), 0U);
}

TEST_F(KernelLayouts, OfSpconv1AreKnownByTheirShapes) {
  const auto model = classifier(8);
  expect_same(*model, *begun(8, {of_spconv1(*model), {}}));
}

TEST_F(KernelLayouts, OfThreeChannelsAreKnownByTheEntryAlone) {
  const auto model = classifier(3);
  const NamedTensors tensors = of_spconv1(*model);
  expect_same(*model, *begun(3, {tensors, {{"sparse_convolution", "x,y,z,in,out"}}}));
  EXPECT_THAT(message_of<DataError>([&] {
                begun(3, {tensors, {}});
              }),
              mentions("weights.safetensors: encoder0_block0.place_convolution.weight is "
                       "[3, 3, 3, 3, 3]",
                       "sparse_convolution:", "'out,x,y,z,in' or 'x,y,z,in,out'"));
  EXPECT_THAT(message_of<DataError>([&] {
                begun(3, {tensors, {{"sparse_convolution", "in,out"}}});
              }),
              HasSubstr("sparse_convolution: 'in,out', expected 'out,x,y,z,in'"));
}

TEST_F(KernelLayouts, OfThisProgramStayAsTheyAre) {
  const auto model = classifier(3);
  const std::string path = folder_ / "own.safetensors";
  write_weights(path, {{"", model.get()}}, {"0123"});
  expect_same(*model, *begun(3, read_sealed(path)));
}

}  // namespace
}  // namespace attnlab::kernel_layout_test
