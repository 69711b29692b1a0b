// The dataset and the task of forecasting: windows, borders, scale and metrics against plain loops.
#include <cmath>

#include "framework/base/text.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::forecasting_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::make_task;
using testing::message_of;

/// What channel `a` and channel `b` are at a row of the files below.
double a(std::int64_t row) { return std::sin(0.7 * double(row)) + 0.1 * double(row); }
double b(std::int64_t row) { return 50 - double(row * row % 17); }

std::string rows(std::int64_t count) {
  std::string text = "date,a,b\n";
  for (std::int64_t row = 0; row < count; ++row) {
    text += "2016-07-01 00:00:00," + shortest(a(row)) + "," + shortest(b(row)) + "\n";
  }
  return text;
}

class ForecastingDataset : public ::testing::Test {
 protected:
  std::shared_ptr<Dataset> open(const std::string& name, const std::string& more = "",
                                std::uint64_t seed = 0) const {
    return make_dataset("forecasting", "{name: " + name + ", root: " + folder_.path() + more + "}",
                        seed);
  }
  std::string refusal(const std::string& text, const std::string& more = "") const {
    folder_.write("mine.csv", text);
    return message_of<Error>([&] { open("mine", ", lookback: 2, horizon: 1" + more); });
  }

  testing::TempFolder folder_;
};

double value_of(const Dataset& data, Split split, std::int64_t index, const char* field,
                std::int64_t step, std::int64_t channel) {
  return data.example(split, index, nullptr).at(field)[step][channel].item<double>();
}

constexpr Split kSplits[] = {Split::train, Split::validation, Split::test};

TEST_F(ForecastingDataset, CutsWindowsWhoseForecastsBeginAtTheBorders) {
  constexpr std::int64_t kRows = 44, kLookback = 5, kHorizon = 3;
  folder_.write("mine.csv.gz", testing::gzipped(rows(kRows)));
  const auto data = open("mine", ", lookback: 5, horizon: 3");
  // 70 % of 44 is 30.8, 20 % is 8.8.
  const std::int64_t begins[] = {0, 30, 36}, ends[] = {30, 36, 44};
  double mean[2] = {0, 0}, deviation[2] = {0, 0};
  for (std::int64_t row = 0; row < 30; ++row) {
    mean[0] += a(row) / 30;
    mean[1] += b(row) / 30;
  }
  for (std::int64_t row = 0; row < 30; ++row) {
    deviation[0] += std::pow(a(row) - mean[0], 2) / 30;
    deviation[1] += std::pow(b(row) - mean[1], 2) / 30;
  }
  const auto scaled = [&](std::int64_t row, std::int64_t channel) {
    return ((channel == 0 ? a(row) : b(row)) - mean[channel]) / std::sqrt(deviation[channel]);
  };
  for (int s = 0; s < 3; ++s) {
    std::int64_t count = 0;
    for (std::int64_t first = 0; first + kLookback + kHorizon <= ends[s]; ++first) {
      const bool own = s == 0 || first + kLookback >= begins[s];
      if (!own) continue;
      for (std::int64_t channel = 0; channel < 2; ++channel) {
        for (std::int64_t t = 0; t < kLookback; ++t) {
          EXPECT_NEAR(value_of(*data, kSplits[s], count, "series", t, channel),
                      scaled(first + t, channel), 1e-5);
        }
        for (std::int64_t t = 0; t < kHorizon; ++t) {
          EXPECT_NEAR(value_of(*data, kSplits[s], count, "future", t, channel),
                      scaled(first + kLookback + t, channel), 1e-5);
        }
      }
      ++count;
    }
    EXPECT_EQ(data->size(kSplits[s]), count) << name_of(kSplits[s]);
  }
  EXPECT_EQ(data->size(Split::validation), 6 - 3 + 1);
  EXPECT_NEAR(data->info().field("future").deviation.at(1), std::sqrt(deviation[1]), 1e-12);
  EXPECT_NEAR(data->info().field("future").mean.at(0), mean[0], 1e-12);
  EXPECT_EQ(data->info().field("future").shape, (std::vector<std::int64_t>{3, 2}));
}

/// `count` rows that tell their number.
std::string numbered(std::int64_t count) {
  std::string text = "date,OT\n";
  for (std::int64_t row = 0; row < count; ++row) text += "d," + std::to_string(row) + "\n";
  return text;
}

TEST_F(ForecastingDataset, DividesEttByMonthsOfThirtyDays) {
  folder_.write("ETTh1.csv", numbered(14500));
  const auto hours = open("ETTh1", ", lookback: 336, horizon: 96, normalise: none");
  EXPECT_EQ(hours->size(Split::train), 8209);  // as published runs print them
  EXPECT_EQ(hours->size(Split::validation), 2785);
  EXPECT_EQ(hours->size(Split::test), 2785);
  EXPECT_EQ(value_of(*hours, Split::train, 0, "series", 0, 0), 0);
  EXPECT_EQ(value_of(*hours, Split::validation, 0, "future", 0, 0), 8640);
  EXPECT_EQ(value_of(*hours, Split::test, 0, "series", 0, 0), 11520 - 336);
  EXPECT_EQ(value_of(*hours, Split::test, 2784, "future", 95, 0), 14399);
  folder_.write("ETTm2.csv", numbered(57600));
  const auto quarters = open("ETTm2", ", lookback: 96, horizon: 96, normalise: none");
  EXPECT_EQ(quarters->size(Split::train), 34369);
  EXPECT_EQ(quarters->size(Split::test), 11425);
  EXPECT_EQ(value_of(*quarters, Split::test, 0, "future", 0, 0), 46080);
  folder_.write("ETTh2.csv", numbered(400));
  EXPECT_THAT(message_of<ConfigError>([&] { open("ETTh2"); }),
              AllOf(HasSubstr("split"), HasSubstr("14400"), HasSubstr("400"), HasSubstr("shares")));
  EXPECT_EQ(open("ETTh2", ", split: shares, lookback: 8, horizon: 4")->size(Split::train), 269);
}

TEST_F(ForecastingDataset, ReadsOneChannelAndTheCalendarWhereAsked) {
  folder_.write("mine.csv",
                "a,date,b\n1,2016-07-01 13:00:00,10\n2,1990/1/1 0:15,20\n3,2019-12-31T23:00,30\n"
                "4,2020-02-29,40\n5,2020-02-29,50\n6,2020-02-29,60\n7,2020-02-29,70\n"
                "8,2020-02-29,80\n9,2020-02-29,90\n10,2020-02-29,100\n");
  const auto data =
      open("mine", ", target: b, calendar: true, lookback: 4, horizon: 1, normalise: none");
  const NamedTensors first = data->example(Split::train, 0, nullptr);
  EXPECT_TRUE(first.at("series").flatten().equal(at::tensor(std::vector<float>{10, 20, 30, 40})));
  EXPECT_TRUE(first.at("future").equal(at::full({1, 1}, 50.0)));
  const double expected[4][4] = {{13 / 23.0, 4 / 6.0, 0, 182 / 365.0},  // a Friday
                                 {0, 0, 0, 0},                          // a Monday
                                 {1, 1 / 6.0, 1, 364 / 365.0},          // a Tuesday
                                 {0, 5 / 6.0, 28 / 30.0, 59 / 365.0}};  // a Saturday
  for (std::int64_t t = 0; t < 4; ++t) {
    for (std::int64_t f = 0; f < 4; ++f) {
      EXPECT_NEAR(first.at("calendar")[t][f].item<double>(), expected[t][f] - 0.5, 1e-6) << t << f;
    }
  }
  EXPECT_THAT(message_of<ConfigError>([&] { open("mine", ", target: c"); }),
              AllOf(HasSubstr("target"), HasSubstr("mine.csv"), HasSubstr("'c'")));
  EXPECT_NE(open("mine", ", target: a, lookback: 4, horizon: 1")->info().fingerprint,
            open("mine", ", target: b, lookback: 4, horizon: 1")->info().fingerprint);
}

TEST_F(ForecastingDataset, NamesFileLineAndColumnOfWhatItRefuses) {
  const std::string head = "date,a,b\n2016-07-01,1,2\n";
  EXPECT_THAT(refusal(head + "2016-07-02,1.5x,2\n"),
              AllOf(HasSubstr("mine.csv:3"), HasSubstr("'a'"), HasSubstr("1.5x"),
                    HasSubstr("not a number")));
  EXPECT_THAT(refusal(head + "2016-07-02,1,\n"),
              AllOf(HasSubstr("mine.csv:3"), HasSubstr("'b'"), HasSubstr("missing")));
  EXPECT_THAT(refusal(head + "2016-07-02,1,NaN\n"), HasSubstr("missing"));
  EXPECT_THAT(refusal(head + "2016-07-02,inf,1\n"), HasSubstr("not a number"));
  EXPECT_THAT(refusal(head + "2016-07-02,1e40,1\n"), HasSubstr("larger unit"));
  EXPECT_THAT(refusal("day,a\n1,2\n"), AllOf(HasSubstr("mine.csv"), HasSubstr("'date'")));
  EXPECT_THAT(refusal("date\n1\n"), HasSubstr("no column beside"));
  EXPECT_THAT(refusal(",date,a\n0,1,2\n"), AllOf(HasSubstr("column 1"), HasSubstr("name it")));
  for (const char* date : {"July", "2016-13-01", "2016-02-30", "2016-07-01 24:00", "2016-07-01 5",
                           "2016-07-01 later"}) {
    EXPECT_THAT(refusal("date,a\n" + std::string(date) + ",2\n", ", calendar: true"),
                AllOf(HasSubstr("mine.csv:2"), HasSubstr("'date'"), HasSubstr("calendar")))
        << date;
  }
  EXPECT_THAT(refusal(rows(4)), AllOf(HasSubstr("lookback"), HasSubstr("train"), HasSubstr("mine"),
                                      HasSubstr("2 rows")));
  folder_.write("mine.csv", rows(6));
  EXPECT_THAT(message_of<ConfigError>([&] { open("mine", ", lookback: 2, horizon: 2"); }),
              AllOf(HasSubstr("horizon"), HasSubstr("1 rows"), HasSubstr("smaller")));
  EXPECT_THAT(message_of<ConfigError>([&] { open("''"); }), HasSubstr("name"));
  EXPECT_THAT(message_of<DataMissingError>([&] { open("ETTm1"); }),
              AllOf(HasSubstr("ETTm1.csv"), HasSubstr("root")));
}

TEST_F(ForecastingDataset, LeavesAConstantChannelAtZero) {
  std::string text = "date,a,b\n";
  for (int row = 0; row < 20; ++row) text += "d,0.1," + std::to_string(row) + "\n";
  folder_.write("mine.csv", text);
  const auto data = open("mine", ", lookback: 2, horizon: 1");
  EXPECT_NEAR(value_of(*data, Split::test, 0, "future", 0, 0), 0, 1e-6);
  EXPECT_EQ(data->info().field("series").deviation.at(0), 1);
}

TEST(MadeUpForecasting, HasPeriodsOfADayAndAWeekATrendAndNoise) {
  const std::string shape = "{name: made_up, normalise: none, lookback: 336, horizon: 48, made: ";
  const auto data = make_dataset("forecasting", shape + "{channels: 3, steps: 840, noise: 0}}");
  EXPECT_EQ(data->size(Split::train), 588 - 336 - 48 + 1);
  const Tensor series = data->example(Split::train, 5, nullptr).at("series").to(at::kDouble);
  // What is left of a week's difference is the trend's; of periods of 24 and 168 hours nothing.
  const Tensor week = series.narrow(0, 168, 168) - series.narrow(0, 0, 168);
  EXPECT_LT((week - week.mean(0, true)).abs().max().item<double>(), 1e-5);
  EXPECT_GT(week.abs().min().item<double>(), 1e-6);
  EXPECT_LE(week.abs().max().item<double>(), 168 / 840.0 + 1e-5) << "slopes of at most 1";
  // A wave of 168 hours is undone by one half a period later, one of 24 hours by half of that.
  const Tensor detrended = series - at::arange(336, at::kDouble).unsqueeze(1) * week.mean(0) / 168;
  const auto swing = [](const Tensor& x) { return (x.amax(0) - x.amin(0)) / 2; };
  const Tensor weekly = (detrended.narrow(0, 0, 324) + detrended.narrow(0, 12, 324)) / 2;
  const double kept = std::cos(std::acos(-1.0) * 12 / 168);  // of the slow wave
  EXPECT_GT((swing(weekly) / kept).min().item<double>(), 0.49);
  EXPECT_LT((swing(weekly) / kept).max().item<double>(), 1.01);
  const auto noisy = make_dataset("forecasting", shape + "{channels: 3, steps: 840, noise: 2}}");
  const Tensor noise = noisy->example(Split::train, 5, nullptr).at("series") - series;
  EXPECT_NEAR(noise.std().item<double>(), 2, 0.2);
  const auto of_run = [&](std::uint64_t seed, const std::string& made) {
    return make_dataset("forecasting", shape + "{channels: 3, steps: 840" + made + "}}", seed)
        ->example(Split::test, 0, nullptr)
        .at("series");
  };
  EXPECT_TRUE(of_run(1, "").equal(of_run(2, ""))) << "the same data for all runs";
  EXPECT_FALSE(of_run(1, "").equal(of_run(1, ", seed: 1")));
}

DatasetInfo info(std::int64_t horizon, const std::vector<double>& deviation = {}) {
  DatasetInfo data;
  data.name = "made up";
  data.fields = {{.name = "future", .shape = {horizon, 2}}};
  data.fields[0].mean.assign(deviation.size(), 0);
  data.fields[0].deviation = deviation;
  return data;
}

TEST(ForecastingTask, MeasuresEveryWindowOfASplitOnceWithAnyBatchSize) {
  const auto data = make_dataset(
      "forecasting", "{name: made_up, lookback: 12, horizon: 5, made: {channels: 2, steps: 300}}");
  const auto task = make_task("forecasting", data->info(), "{steps: [5, 1, 5], own_units: true}");
  const std::vector<double>& units = data->info().field("future").deviation;
  const std::int64_t windows = data->size(Split::test);
  double squares = 0, sizes = 0, last = 0, own = 0;
  for (std::int64_t i = 0; i < windows; ++i) {  // a forecast that repeats the last value
    for (std::int64_t t = 0; t < 5; ++t) {
      for (std::int64_t c = 0; c < 2; ++c) {
        const double error = value_of(*data, Split::test, i, "series", 11, c) -
                             value_of(*data, Split::test, i, "future", t, c);
        squares += error * error;
        sizes += std::abs(error);
        if (t == 4) last += error * error;
        own += std::abs(error) * units[std::size_t(c)];
      }
    }
  }
  const double count = double(windows * 10);
  for (const std::int64_t size : {7, 1, 1000}) {
    const EpochPlan plan = data->plan({.split = Split::test, .batch_size = size});
    EXPECT_EQ(plan.ends.back(), windows) << "the last batch, full or not";
    const auto meter = task->meter();
    std::int64_t begin = 0;
    for (const std::int64_t end : plan.ends) {
      std::vector<NamedTensors> examples;
      for (; begin < end; ++begin) {
        examples.push_back(data->example(Split::test, plan.order[std::size_t(begin)], nullptr));
      }
      const Batch batch = data->collate(examples);
      const Tensor repeated = batch.fields.at("series").narrow(1, 11, 1).expand({-1, 5, -1});
      meter->add({{"forecast", repeated}}, batch);
    }
    const Metrics found = meter->result();
    EXPECT_NEAR(found.at("mse"), squares / count, 1e-9);
    EXPECT_NEAR(found.at("mae"), sizes / count, 1e-9);
    EXPECT_NEAR(found.at("mse_step_5"), last / double(windows * 2), 1e-9);
    EXPECT_NEAR(found.at("mae_own"), own / count, 1e-9);
    EXPECT_EQ(found.size(), 8U);
  }
  std::vector<std::string> names;
  for (const MetricInfo& metric : task->metrics()) {
    names.push_back(metric.name);
    EXPECT_EQ(metric.better, Better::lower);
  }
  EXPECT_THAT(names, ElementsAre("mse", "mae", "mse_step_1", "mae_step_1", "mse_step_5",
                                 "mae_step_5", "mse_own", "mae_own"));
}

TEST(ForecastingTask, TrainsBySquaresSizesOrBoth) {
  const double errors[] = {0.5, -3, 1, 0};
  Batch batch;
  batch.size = 1;
  batch.fields = {{"future", at::zeros({1, 2, 2}, at::kDouble)}};
  const Tensor forecast =
      at::tensor(std::vector<double>(errors, errors + 4), at::kDouble).view({1, 2, 2});
  double squares = 0, sizes = 0, huber = 0;
  for (const double error : errors) {
    const double size = std::abs(error);
    squares += error * error / 4;
    sizes += size / 4;
    huber += (size <= 0.75 ? error * error / 2 : 0.75 * (size - 0.375)) / 4;
  }
  const auto loss = [&](const std::string& options) {
    return make_task("forecasting", info(2), options)
        ->loss({{"forecast", forecast}}, batch)
        .item<double>();
  };
  EXPECT_NEAR(loss("{}"), squares, 1e-12);
  EXPECT_NEAR(loss("{loss: mae}"), sizes, 1e-12);
  EXPECT_NEAR(loss("{loss: huber, delta: 0.75}"), huber, 1e-12);
}

TEST(ForecastingTask, RefusesWhatItCannotCompare) {
  EXPECT_THAT(message_of<ConfigError>([] { make_task("forecasting", info(4), "{steps: [5]}"); }),
              AllOf(HasSubstr("steps"), HasSubstr("5"), HasSubstr("horizon")));
  EXPECT_THAT(
      message_of<ConfigError>([] { make_task("forecasting", info(4), "{own_units: true}"); }),
      AllOf(HasSubstr("own_units"), HasSubstr("false")));
  DatasetInfo none;
  none.name = "no future";
  EXPECT_THAT(message_of<DataError>([&] { make_task("forecasting", none); }), HasSubstr("future"));
  const auto task = make_task("forecasting", info(4));
  Batch batch;
  batch.size = 1;
  batch.fields = {{"future", at::zeros({1, 4, 2})}};
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{1, 4, 1}, std::vector<std::int64_t>{1, 5, 2}}) {
    EXPECT_THAT(message_of<ShapeError>([&] {
                  task->loss({{"forecast", at::zeros(shape)}}, batch);
                }),
                AllOf(HasSubstr("[1, 4, 2]"), HasSubstr("future")));
  }
  EXPECT_THAT(message_of<Error>([&] { task->meter()->result(); }), HasSubstr("nothing"));
}

}  // namespace
}  // namespace attnlab::forecasting_test
