// The dataset of one's own tables: what makes a case, which cases are held out, what is refused.
#include <limits>
#include <set>

#include "framework/data/formats/safetensors.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::table_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;

class TableDataset : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  std::shared_ptr<Dataset> open(const std::string& file, const std::string& more = "",
                                std::uint64_t seed = 0) const {
    return make_dataset("table", "{file: " + folder_ / file + more + "}", seed);
  }
  std::string refusal(const std::string& text, const std::string& more = "") const {
    write("t.csv", text);
    return message_of<Error>([&] { open("t.csv", more); });
  }
  static std::vector<float> series(const Dataset& dataset, Split split, std::int64_t index) {
    const Tensor values = dataset.example(split, index, nullptr).at("series").contiguous();
    return {values.data_ptr<float>(), values.data_ptr<float>() + values.numel()};
  }
  /// `count` rows of two classes: value, ten times the value, class.
  static std::string rows(int count) {
    std::string text = "a,b,label\n";
    for (int i = 0; i < count; ++i) {
      text += std::to_string(i) + "," + std::to_string(10 * i) + (i % 2 == 0 ? ",x\n" : ",y\n");
    }
    return text;
  }

  testing::TempFolder folder_;
};

TEST_F(TableDataset, MakesASeriesOfEachRow) {
  write("t.csv",
        "\xef\xbb\xbf"
        "height,kind,\"width, mm\"\r\n1.5,cat,2\r\n-3e2,dog,4\r\n");
  const auto data = open("t.csv", ", label: kind, test: 0, normalise: none");
  EXPECT_EQ(data->size(Split::train), 2);
  EXPECT_EQ(data->size(Split::test), 0);
  EXPECT_THAT(data->info().class_names, ElementsAre("cat", "dog"));
  EXPECT_EQ(data->info().field("series").shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_THAT(series(*data, Split::train, 0), ElementsAre(1.5F, 2));
  EXPECT_THAT(series(*data, Split::train, 1), ElementsAre(-300, 4));
  EXPECT_EQ(data->example(Split::train, 1, nullptr).at("class").item<std::int64_t>(), 1);
}

TEST_F(TableDataset, MakesASeriesOfTheRowsOfAGroupInTheOrderOfTheirTime) {
  write("t.tsv",
        "id\tday\tu\tv\tlabel\n"
        "p1\t10\t1\t2\t7\np2\t1\t5\t6\t10\np1\t9\t3\t4\t7\n");
  const auto data = open("t.tsv", ", group: id, time: day, test: 0, normalise: none");
  EXPECT_EQ(data->size(Split::train), 2);
  EXPECT_THAT(series(*data, Split::train, 0), ElementsAre(3, 4, 1, 2)) << "9 is before 10";
  EXPECT_THAT(series(*data, Split::train, 1), ElementsAre(5, 6));
  EXPECT_THAT(data->info().class_names, ElementsAre("7", "10")) << "as numbers";
  EXPECT_EQ(data->info().field("series").shape, (std::vector<std::int64_t>{-1, 2}));
  const Batch batch = data->collate(
      {data->example(Split::train, 0, nullptr), data->example(Split::train, 1, nullptr)});
  EXPECT_EQ(batch.fields.at("valid").sum().item<std::int64_t>(), 3);
}

TEST_F(TableDataset, HoldsOutAShareOfEachClassTheSameForAllSeedsOfRuns) {
  write("t.csv", rows(40));
  const auto one = open("t.csv", ", test: 0.25, validation: 0.2, normalise: none");
  const auto same = open("t.csv", ", test: 0.25, validation: 0.2, normalise: none", 9);
  EXPECT_EQ(one->size(Split::test), 10);
  EXPECT_EQ(one->size(Split::validation), 6);
  EXPECT_EQ(one->size(Split::train), 24);
  std::set<float> all;
  std::int64_t second = 0;
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    for (std::int64_t i = 0; i < one->size(split); ++i) {
      all.insert(series(*one, split, i)[0]);
      EXPECT_EQ(series(*one, split, i), series(*same, split, i));
      if (split != Split::test) continue;
      second += one->example(split, i, nullptr).at("class").item<std::int64_t>();
    }
  }
  EXPECT_EQ(all.size(), 40U) << "each case is in one split";
  EXPECT_EQ(second, 5);
  const auto other = open("t.csv", ", test: 0.25, split_seed: 1, normalise: none");
  std::set<float> first_test, other_test;
  for (std::int64_t i = 0; i < 10; ++i) {
    first_test.insert(series(*one, Split::test, i)[0]);
    other_test.insert(series(*other, Split::test, i)[0]);
  }
  EXPECT_NE(first_test, other_test);
}

TEST_F(TableDataset, ScalesByTheTrainingCasesAndFillsWhatIsMissing) {
  write("t.csv", "a,b,label\n1,5,x\n3,5,y\n,5,x\n");
  write("test.csv", "a,b,label\n4,NA,x\n");
  const std::string more = ", missing: mean, test_file: " + folder_ / "test.csv";
  const auto data = open("t.csv", more);
  EXPECT_EQ(data->size(Split::train), 3);
  const float step = 0.70710678F;  // 1 over the deviation of 1 and 3
  EXPECT_FLOAT_EQ(series(*data, Split::train, 0)[0], -step);
  EXPECT_FLOAT_EQ(series(*data, Split::train, 2)[0], 0) << "the mean";
  EXPECT_FLOAT_EQ(series(*data, Split::test, 0)[0], 2 * step);
  EXPECT_FLOAT_EQ(series(*data, Split::test, 0)[1], 0) << "a column without spread";
  EXPECT_THAT(message_of<DataError>([&] { open("t.csv", ", test: 0"); }),
              AllOf(HasSubstr("1 values are missing"), HasSubstr("missing: mean")));
}

TEST_F(TableDataset, ReadsArraysAsRowsAndAsSeries) {
  const Tensor labels = at::tensor({3, 1, 3, 1}, at::kLong);
  TensorFile vectors, whole;
  vectors.tensors = {{"x", at::arange(12, at::kFloat).view({4, 3})}, {"label", labels}};
  whole.tensors = {{"label", labels}, {"x", at::arange(16, at::kDouble).view({4, 2, 2})}};
  write_safetensors(folder_ / "rows.safetensors", vectors);
  write_safetensors(folder_ / "series.safetensors", whole);
  const std::string more = ", test: 0, normalise: none";
  const auto rows = open("rows.safetensors", more);
  EXPECT_EQ(rows->info().field("series").shape, (std::vector<std::int64_t>{3, 1}));
  EXPECT_THAT(series(*rows, Split::train, 1), ElementsAre(3, 4, 5));
  EXPECT_THAT(rows->info().class_names, ElementsAre("1", "3"));
  const auto cases = open("series.safetensors", more);
  EXPECT_EQ(cases->info().field("series").shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_THAT(series(*cases, Split::train, 1), ElementsAre(4, 5, 6, 7));
}

TEST_F(TableDataset, ReadsNumPysArrays) {
  const auto npy = [](const std::string& descr, const std::string& shape, std::string data) {
    std::string header =
        "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(117, ' ');
    header += '\n';
    return std::string("\x93NUMPY\x01\x00", 8) + char(header.size()) + '\0' + header +
           std::move(data);
  };
  write("t.npz", testing::zip_file({{"label.npy", npy("|i1", "(2,)", std::string("\x01\x00", 2))},
                                    {"x.npy", npy("|u1", "(2, 2)", "\x01\x02\x03\x04")}},
                                   false));
  const auto data = open("t.npz", ", test: 0, normalise: none");
  EXPECT_THAT(series(*data, Split::train, 0), ElementsAre(1, 2));
  EXPECT_EQ(data->example(Split::train, 0, nullptr).at("class").item<std::int64_t>(), 1);
}

TEST_F(TableDataset, NamesPlaceColumnAndRemedy) {
  EXPECT_THAT(refusal("a,label\n1,x\ntwo,y\n"),
              AllOf(HasSubstr("t.csv:3"), HasSubstr("column 'a'"), HasSubstr("`columns`")));
  EXPECT_THAT(refusal("a,lable\n1,x\n"), AllOf(HasSubstr("t.csv"), HasSubstr("'lable'")));
  EXPECT_THAT(refusal("a,label\n1,x\n2,\n"), AllOf(HasSubstr("t.csv:3"), HasSubstr("missing")));
  EXPECT_THAT(refusal("label\nx\n"), HasSubstr("no column of values"));
  EXPECT_THAT(refusal("a,label,id\n1,x,p\n2,y,p\n", ", group: id"),
              AllOf(HasSubstr("t.csv:3"), HasSubstr("'y'"), HasSubstr("t.csv:2")));
  EXPECT_THAT(refusal("a,label,id,t\n1,x,p,5\n2,x,p,5.0\n", ", group: id, time: t"),
              AllOf(HasSubstr("t.csv:3"), HasSubstr("time")));
  EXPECT_THAT(refusal("a,label\n1,x\n2,y\n"), HasSubstr("no class has two"));
  EXPECT_THAT(refusal("a,label\n1,x\n2,x\n", ", time: a"), HasSubstr("`group`"));
  EXPECT_THAT(message_of<ConfigError>([&] {
                write("t.xlsx", "PK");
                open("t.xlsx");
              }),
              AllOf(HasSubstr("t.xlsx"), HasSubstr(".csv")));
  EXPECT_THAT(message_of<DataMissingError>([&] { open("no/such.csv"); }),
              AllOf(HasSubstr(folder_ / "no"), HasSubstr("such.csv"), HasSubstr("`file`")));
  write("t.csv", rows(4));
  write("test.csv", "a,label\n1,x\n");
  EXPECT_THAT(message_of<DataError>([&] { open("t.csv", ", test_file: " + folder_ / "test.csv"); }),
              AllOf(HasSubstr("test.csv"), HasSubstr("no column 'b'")));
}

TEST_F(TableDataset, TakesTheTestFilesColumnsByTheirNames) {
  write("t.csv", "a,b,label\n1,10,x\n2,20,y\n");
  write("test.csv", "label,b,a\ny,40,4\n");
  const std::string more = ", normalise: none, test_file: " + folder_ / "test.csv";
  const auto data = open("t.csv", more);
  ASSERT_EQ(data->size(Split::test), 1);
  EXPECT_THAT(series(*data, Split::test, 0), ElementsAre(4, 40));
  write("test.csv", "label,c,a\ny,40,4\n");
  EXPECT_THAT(message_of<DataError>([&] { open("t.csv", more); }),
              AllOf(HasSubstr("test.csv"), HasSubstr("no column 'b'")));
}

TEST_F(TableDataset, RefusesTestArraysOfAnotherWidth) {
  const auto file = [&](const std::string& name, std::int64_t columns) {
    TensorFile out;
    out.tensors = {{"x", at::zeros({2, columns})}, {"label", at::tensor({1, 2}, at::kLong)}};
    write_safetensors(folder_ / name, out);
  };
  file("train.safetensors", 3);
  file("test.safetensors", 2);
  EXPECT_THAT(message_of<DataError>([&] {
                open("train.safetensors", ", test_file: " + folder_ / "test.safetensors");
              }),
              AllOf(HasSubstr("test.safetensors"), HasSubstr("has 2 columns of values")));
}

TEST_F(TableDataset, RefusesValuesBeyondFloat32) {
  EXPECT_THAT(refusal("a,b,label\n1,2,x\n1,-1e39,y\n"),
              AllOf(HasSubstr("t.csv:3: column 'b': '-1e39'"), HasSubstr("float32")));
  for (const double large : {1e39, -std::numeric_limits<double>::infinity()}) {
    TensorFile out;
    out.tensors = {{"heights", at::full({2, 2}, large, at::kDouble)},
                   {"label", at::tensor({1, 2}, at::kLong)}};
    write_safetensors(folder_ / "t.safetensors", out);
    EXPECT_THAT(message_of<DataError>([&] { open("t.safetensors", ", test: 0"); }),
                AllOf(HasSubstr("t.safetensors: array 'heights'"), HasSubstr("float32")));
  }
}

TEST_F(TableDataset, RefusesAColumnWithoutAName) {  // as pandas writes its index
  const std::string text = ",a,id,t,label\n0,1,p,1,x\n1,2,q,1,y\n";
  for (const char* more : {"", ", group: id, time: t"}) {
    EXPECT_THAT(refusal(text, more),
                AllOf(HasSubstr("t.csv: column 1 has no name"), HasSubstr("`columns`")));
  }
  write("t.csv", text);
  const auto data = open("t.csv", ", columns: [a], test: 0, normalise: none");
  EXPECT_THAT(series(*data, Split::train, 1), ElementsAre(2));
}

TEST_F(TableDataset, TrimsLabelsAndRefusesThoseThatAreMissing) {
  write("t.csv", "a, label \n1,cat\n2,cat \n3, dog\n");
  EXPECT_THAT(open("t.csv", ", test: 0")->info().class_names, ElementsAre("cat", "dog"));
  for (const char* missing : {"NA", " nan", "NaN ", " "}) {
    EXPECT_THAT(refusal("a,label\n1,x\n2," + std::string(missing) + "\n", ", test: 0"),
                AllOf(HasSubstr("t.csv:3"), HasSubstr("label is missing"), HasSubstr("`label`")));
  }
}

TEST_F(TableDataset, RefusesTheLabelAsAValue) {
  EXPECT_THAT(refusal("a,label\n1,0\n2,1\n", ", test: 0, columns: [a, label]"),
              mentions("columns", "'label'", "the label"));
}

}  // namespace
}  // namespace attnlab::table_test
