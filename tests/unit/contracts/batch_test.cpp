// Batches: names of fields, examples put together, parts cut out, parts joined.
#include "framework/contracts/batch.h"

#include "framework/contracts/dataset.h"
#include "tests/support/data_files.h"

namespace attnlab::batch_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

using Numbers = std::vector<std::int64_t>;

Tensor longs(const Numbers& values) { return at::tensor(values, at::kLong); }

/// A graph whose first node is `value` and whose others count on from there; each node but the
/// first has an edge to the one before it, and the first an edge to nowhere (-1).
NamedTensors graph(std::int64_t nodes, double value) {
  const Tensor edges = at::stack({at::arange(nodes), at::arange(nodes) - 1}, 1);
  return {{"x@node", (at::arange(nodes, at::kFloat) + value).unsqueeze(1).expand({-1, 3}).clone()},
          {"edges@edge>node", edges},
          {"type@edge", at::full({nodes}, value, at::kInt)},
          {"class", at::scalar_tensor(std::int64_t(value), at::kLong)}};
}

const std::vector<FieldInfo> kGraphFields = {{"x@node", {-1, 3}},
                                             {"edges@edge>node", {-1, 2}, at::kLong},
                                             {"type@edge", {-1}, at::kInt},
                                             {"class", {}, at::kLong}};

Batch graphs(const Numbers& sizes) {
  std::vector<NamedTensors> examples;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    examples.push_back(graph(sizes[i], 100.0 * double(i)));
  }
  return collated(examples, kGraphFields);
}

void expect_equal(const Batch& found, const Batch& expected) {
  EXPECT_EQ(found.size, expected.size);
  EXPECT_EQ(found.continues, expected.continues);
  for (const auto& [tensors, others] :
       {std::pair{&found.fields, &expected.fields}, std::pair{&found.offsets, &expected.offsets}}) {
    ASSERT_EQ(tensors->size(), others->size());
    for (const auto& [name, tensor] : *others) {
      EXPECT_EQ(tensors->at(name).dtype(), tensor.dtype()) << name;
      EXPECT_TRUE(tensors->at(name).equal(tensor)) << name << ": " << tensors->at(name);
    }
  }
}

TEST(FieldName, HasABaseAnAxisAndATarget) {
  const auto parts = [](std::string_view name) {
    const FieldName parsed = parse_field_name(name);
    return std::vector<std::string>{std::string(parsed.base), std::string(parsed.axis),
                                    std::string(parsed.target)};
  };
  EXPECT_EQ(parts("image"), (std::vector<std::string>{"image", "", ""}));
  EXPECT_EQ(parts("type@node"), (std::vector<std::string>{"type", "node", ""}));
  EXPECT_EQ(parts("edges@edge>node"), (std::vector<std::string>{"edges", "edge", "node"}));
}

TEST(FieldName, HasNoEmptyPart) {
  for (const char* name : {"", "@node", "x@", "x@>node", "x@edge>", "x>node", "@", ">", "x@a@b",
                           "x@a>b>c", "x@a>b@c"}) {
    EXPECT_THAT(message_of<DataError>([&] { parse_field_name(name); }),
                HasSubstr("'" + std::string(name) + "' is not a field"));
  }
}

TEST(Collated, LaysFieldsOfAnAxisEndToEnd) {
  const Batch batch = graphs({2, 1, 3});
  EXPECT_EQ(batch.size, 3);
  EXPECT_TRUE(batch.offsets.at("node").equal(longs({0, 2, 3, 6})));
  EXPECT_TRUE(batch.offsets.at("edge").equal(longs({0, 2, 3, 6})));
  EXPECT_TRUE(batch.fields.at("x@node").select(1, 2).equal(
      at::tensor({0.f, 1.f, 100.f, 200.f, 201.f, 202.f})));
  EXPECT_TRUE(batch.fields.at("type@edge").equal(at::tensor({0, 0, 100, 200, 200, 200}, at::kInt)));
  EXPECT_TRUE(batch.fields.at("class").equal(longs({0, 100, 200})));
}

TEST(Collated, CountsRowsOfAnotherAxisFromTheBatchesFirst) {
  const Tensor edges = graphs({2, 1, 3}).fields.at("edges@edge>node");
  EXPECT_TRUE(edges.select(1, 0).equal(longs({0, 1, 2, 3, 4, 5})));
  EXPECT_TRUE(edges.select(1, 1).equal(longs({-1, 0, -1, -1, 3, 4}))) << "-1 is not a row";
}

TEST(Collated, RefusesRowsThatAreNotInt64) {
  EXPECT_THAT(
      message_of<DataError>([] {
        collated({{{"x@node", at::zeros({3})}, {"up@node>node", at::zeros({3}, at::kInt)}}}, {});
      }),
      AllOf(HasSubstr("field 'up@node>node': example 0"), HasSubstr("are int64")));
}

TEST(Collated, TakesExamplesWithoutRows) {
  const Batch batch = graphs({0, 2, 0});
  EXPECT_TRUE(batch.offsets.at("node").equal(longs({0, 0, 2, 2})));
  EXPECT_EQ(batch.fields.at("x@node").sizes(), (Numbers{2, 3}));
  EXPECT_TRUE(batch.fields.at("edges@edge>node").select(1, 1).equal(longs({-1, 0})));
  EXPECT_EQ(graphs({0, 0}).fields.at("edges@edge>node").sizes(), (Numbers{0, 2}));
}

TEST(Collated, PadsWhatMayDifferWithZeros) {
  const std::vector<FieldInfo> fields = {{"series", {-1, 2}}, {"map", {-1, -1}}};
  const auto example = [](std::int64_t length, std::int64_t height, std::int64_t width) {
    return NamedTensors{{"series", at::ones({length, 2})}, {"map", at::ones({height, width})}};
  };
  const Batch batch = collated({example(1, 3, 1), example(4, 1, 2)}, fields);
  EXPECT_EQ(batch.fields.size(), 2U);
  EXPECT_EQ(batch.fields.at("series").sizes(), (Numbers{2, 4, 2}));
  EXPECT_TRUE(batch.fields.at("series").sum(2).equal(
      at::tensor({2.f, 0.f, 0.f, 0.f, 2.f, 2.f, 2.f, 2.f}).view({2, 4})));
  EXPECT_TRUE(batch.fields.at("map").equal(
      at::tensor({1.f, 0.f, 1.f, 0.f, 1.f, 0.f, 1.f, 1.f, 0.f, 0.f, 0.f, 0.f}).view({2, 3, 2})));
}

TEST(Collated, MarksWhatIsRealWhereAskedTo) {
  const std::vector<FieldInfo> fields = {{"series", {-1, 2}},
                                         {"series_valid", {-1}, at::kBool},
                                         {"map", {-1, 5, -1}},
                                         {"map_valid", {-1, -1}, at::kBool}};
  const auto example = [](std::int64_t length, std::int64_t height, std::int64_t width) {
    return NamedTensors{{"series", at::ones({length, 2})}, {"map", at::ones({height, 5, width})}};
  };
  const Batch batch = collated({example(1, 3, 1), example(3, 1, 2)}, fields);
  EXPECT_TRUE(batch.fields.at("series_valid")
                  .equal(at::tensor({1, 0, 0, 1, 1, 1}).to(at::kBool).view({2, 3})));
  EXPECT_TRUE(
      batch.fields.at("map_valid")
          .equal(at::tensor({1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0}).to(at::kBool).view({2, 3, 2})));
  // Also where nothing differs: a model that asks for it finds it.
  const Batch even = collated({example(2, 1, 1), example(2, 1, 1)}, fields);
  EXPECT_TRUE(even.fields.at("series_valid").equal(at::ones({2, 2}, at::kBool)));
}

TEST(Collated, PadsNothingThatMustBeEqual) {
  const std::vector<FieldInfo> fields = {{"series", {-1, 2}}};
  const std::string message = message_of<DataError>([&] {
    collated({{{"series", at::ones({4, 2})}}, {{"series", at::ones({4, 3})}}}, fields);
  });
  EXPECT_THAT(message, AllOf(HasSubstr("field 'series': example 1"), HasSubstr("[4, 3]"),
                             HasSubstr("mark dimensions that differ with -1")));
}

TEST(Collated, RefusesRowsThatDisagreeAlongAnAxis) {
  EXPECT_THAT(message_of<DataError>([] {
                collated({{{"x@node", at::ones({4, 2})}, {"y@node", at::ones({3})}}}, {});
              }),
              AllOf(HasSubstr("field 'y@node'"), HasSubstr("axis 'node'")));
  EXPECT_THAT(message_of<DataError>([] {
                collated({{{"x@node", at::ones({})}}}, {});
              }),
              AllOf(HasSubstr("field 'x@node': example 0"), HasSubstr("no rows")));
  EXPECT_THAT(message_of<DataError>([] {
                collated({{{"x@node", at::ones({2, 1})}}, {{"x@node", at::ones({2, 2})}}}, {});
              }),
              HasSubstr("field 'x@node': example 1"));
}

TEST(Collated, RefusesRowsOfAnAxisThatIsNotThere) {
  EXPECT_THAT(message_of<DataError>([] {
                collated({{{"edges@edge>node", at::zeros({1, 2}, at::kLong)}}}, {});
              }),
              AllOf(HasSubstr("'edges@edge>node'"), HasSubstr("axis 'node'")));
}

// A row that another example has would be a node of that example, and nobody would notice.
TEST(Collated, RefusesRowsThatTheExampleDoesNotHave) {
  const auto example = [](std::int64_t row) {
    return NamedTensors{{"x@node", at::zeros({2})}, {"up@node>node", longs({0, row})}};
  };
  EXPECT_NO_THROW(collated({example(1), example(1)}, {}));
  EXPECT_THAT(message_of<DataError>([&] {
                collated({example(1), example(2)}, {});
              }),
              AllOf(HasSubstr("field 'up@node>node': example 1"), HasSubstr("row 2"),
                    HasSubstr("axis 'node', which has 2")));
}

TEST(RowsOf, NamesTheAxesThatExist) {
  const Batch batch = graphs({2, 1});
  EXPECT_EQ(rows_of(batch, "node"), 3);
  EXPECT_THAT(message_of<ShapeError>([&] { rows_of(batch, "nodes"); }),
              HasSubstr("it has node, edge"));
  EXPECT_THAT(message_of<ShapeError>([] { rows_of({}, "node"); }), HasSubstr("it has none"));
}

TEST(UnitsOf, CountsExamplesRowsOrElementsThatAreNoPadding) {
  DatasetInfo info;
  Batch batch = graphs({2, 1, 4});
  batch.fields.set("tokens", at::zeros({3, 5}, at::kLong));
  EXPECT_EQ(units_of(info, batch), 3);
  info.unit_field = "node";
  EXPECT_EQ(units_of(info, batch), 7);
  info.unit_field = "tokens";
  EXPECT_EQ(units_of(info, batch), 15);
  batch.fields.set("tokens_valid", at::arange(5).lt(at::tensor({5, 1, 3}).unsqueeze(1)));
  EXPECT_EQ(units_of(info, batch), 9) << "padding does not count";
}

TEST(Slice, IsTheExamplesAsABatchOfTheirOwn) {
  const Numbers sizes = {2, 0, 1, 3, 2};
  Batch all = graphs(sizes);
  all.continues = true;
  std::vector<NamedTensors> examples;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    examples.push_back(graph(sizes[i], 100.0 * double(i)));
  }
  for (std::size_t begin = 0; begin < sizes.size(); ++begin) {
    for (std::size_t end = begin + 1; end <= sizes.size(); ++end) {
      const auto from = std::ptrdiff_t(begin), to = std::ptrdiff_t(end);
      Batch expected = collated({examples.begin() + from, examples.begin() + to}, kGraphFields);
      expected.continues = true;
      expect_equal(slice(all, from, to - from), expected);
    }
  }
}

TEST(Slice, CopiesNothingButRows) {
  const Batch all = graphs({2, 1, 3});
  const Batch part = slice(all, 1, 2);
  EXPECT_EQ(part.fields.at("x@node").data_ptr(), all.fields.at("x@node")[2].data_ptr());
  EXPECT_EQ(part.fields.at("class").data_ptr(), all.fields.at("class")[1].data_ptr());
  EXPECT_TRUE(
      all.fields.at("edges@edge>node").equal(graphs({2, 1, 3}).fields.at("edges@edge>node")));
}

TEST(Joined, PutsSlicesTogetherAgain) {
  const Batch all = graphs({2, 0, 1, 3, 2});
  expect_equal(joined({slice(all, 0, 1), slice(all, 1, 3), slice(all, 4, 1)}), all);
  expect_equal(joined({all}), all);
}

TEST(Joined, NamesWhatDoesNotFit) {
  EXPECT_EQ(joined({}).size, 0);
  const Batch a{{{"x", at::zeros({2, 3})}}, 2}, b{{{"x", at::zeros({2, 4})}}, 2};
  EXPECT_THAT(message_of<ShapeError>([&] {
                joined({a, b});
              }),
              AllOf(HasSubstr("field 'x'"), HasSubstr("[2, 4]"), HasSubstr("[2, 3]")));
  const Batch c{{{"y", at::zeros({2, 3})}}, 2};
  EXPECT_THROW(joined({a, c}), ShapeError);
}

TEST(ToDevice, LeavesOffsetsWhereTheyAre) {
  Batch all = graphs({2, 1});
  all.continues = true;
  expect_equal(to_device(all, at::kCPU), all);
  if (!at::hasCUDA()) return;
  const Batch moved = to_device(all, at::kCUDA);
  EXPECT_TRUE(moved.fields.at("x@node").is_cuda());
  EXPECT_TRUE(moved.offsets.at("node").is_cpu());
  EXPECT_TRUE(moved.continues);
  expect_equal(to_device(moved, at::kCPU), moved);
}

}  // namespace
}  // namespace attnlab::batch_test
