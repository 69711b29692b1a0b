#include "framework/contracts/dataset.h"

#include "tests/support/data_files.h"

namespace attnlab::dataset_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

class Pairs final : public Dataset {
 public:
  Pairs() { info_.name = "pairs"; }
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override {
    return split == Split::train ? 3 : split == Split::test ? 1 : 0;
  }
  NamedTensors make_example(Split, std::int64_t index, Random*) const override {
    return {{"x", at::scalar_tensor(index, at::kLong)}};
  }

 private:
  DatasetInfo info_;
};

TEST(Collate, StacksEveryFieldAlongANewFirstDimension) {
  std::vector<NamedTensors> examples;
  for (std::int64_t i = 0; i < 5; ++i) {
    // Transposed, so that the memory of an example is not in the order of its elements.
    const Tensor image = (at::arange(6, at::kFloat) + i).view({3, 2}).t();
    examples.push_back({{"image", image}, {"class", at::scalar_tensor(i, at::kLong)}});
  }
  const Batch batch = Pairs().collate(examples);
  EXPECT_EQ(batch.size, 5);
  EXPECT_EQ(batch.fields.size(), 2U);
  const Tensor &images = batch.fields.at("image"), &classes = batch.fields.at("class");
  EXPECT_EQ(images.sizes(), (std::vector<std::int64_t>{5, 2, 3}));
  EXPECT_EQ(classes.sizes(), (std::vector<std::int64_t>{5}));
  EXPECT_EQ(classes.scalar_type(), at::kLong);
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(classes[i].item<std::int64_t>(), i);
    for (std::int64_t a = 0; a < 2; ++a) {
      for (std::int64_t b = 0; b < 3; ++b) {
        EXPECT_EQ(images[i][a][b].item<float>(), static_cast<float>(2 * b + a + i));
      }
    }
  }
}

TEST(Collate, OfNothingIsAnEmptyBatch) {
  const Batch batch = Pairs().collate({});
  EXPECT_EQ(batch.size, 0);
  EXPECT_EQ(batch.fields.size(), 0U);
}

TEST(Collate, RefusesShapesThatDisagreeAndNamesThem) {
  const std::string message = message_of<DataError>([] {
    Pairs().collate({{{"image", at::zeros({1, 4, 4})}}, {{"image", at::zeros({1, 4, 5})}}});
  });
  EXPECT_THAT(message, HasSubstr("'image'"));
  EXPECT_THAT(message, HasSubstr("example 1"));
  EXPECT_THAT(message, HasSubstr("[1, 4, 5]"));
  EXPECT_THAT(message, HasSubstr("[1, 4, 4]"));
}

TEST(Collate, RefusesDtypesThatDisagree) {
  EXPECT_THROW(
      Pairs().collate({{{"x", at::zeros({2}, at::kFloat)}}, {{"x", at::zeros({2}, at::kInt)}}}),
      DataError);
}

TEST(Collate, RefusesFieldsThatDisagree) {
  EXPECT_THROW(Pairs().collate({{{"x", at::zeros({2})}}, {{"y", at::zeros({2})}}}), DataError);
  EXPECT_THROW(
      Pairs().collate({{{"x", at::zeros({2})}}, {{"x", at::zeros({2})}, {"y", at::zeros({2})}}}),
      DataError);
}

TEST(Dataset, GivesTheExamplesOfASplitAndRefusesOtherIndices) {
  const Pairs pairs;
  for (const std::int64_t index : {0, 1, 2}) {
    EXPECT_EQ(pairs.example(Split::train, index, nullptr).at("x").item<std::int64_t>(), index);
  }
  const std::vector<std::pair<Split, std::int64_t>> absent = {
      {Split::train, 3},         {Split::train, -1},     {Split::train, INT64_MIN},
      {Split::train, INT64_MAX}, {Split::validation, 0}, {Split::test, 1}};
  for (const auto& place : absent) {
    const Split split = place.first;
    const std::int64_t index = place.second;
    EXPECT_THAT(message_of<DataError>([&] { pairs.example(split, index, nullptr); }),
                AllOf(HasSubstr("'pairs'"), HasSubstr(std::to_string(index)),
                      HasSubstr(std::string(name_of(split)))));
  }
}

TEST(DatasetInfo, NamesItsFieldsWhenOneIsMissing) {
  DatasetInfo info;
  info.name = "photos";
  info.fields = {{"image", {3, 8, 8}, at::kFloat}, {"class", {}, at::kLong}};
  EXPECT_EQ(info.field("class").dtype, at::kLong);
  const std::string message = message_of<DataError>([&] { info.field("tokens"); });
  EXPECT_THAT(message, HasSubstr("photos"));
  EXPECT_THAT(message, HasSubstr("tokens"));
  EXPECT_THAT(message, HasSubstr("image, class"));
}

TEST(Split, HasNames) {
  EXPECT_EQ(name_of(Split::train), "train");
  EXPECT_EQ(name_of(Split::validation), "validation");
  EXPECT_EQ(name_of(Split::test), "test");
}

}  // namespace
}  // namespace attnlab::dataset_test
