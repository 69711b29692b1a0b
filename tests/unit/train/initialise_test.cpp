// Parameters that begin with those of a file or of another run.
#include "framework/train/initialise.h"

#include <chrono>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/config/compose.h"
#include "framework/experiment/init_source.h"
#include "framework/runs/source_run.h"
#include "tests/support/plugins.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::initialise_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using testing::clouds;
using ::testing::HasSubstr;
using testing::Line;
using testing::message_of;
using ::testing::Not;
using testing::tiny_options;
using testing::tiny_run;
using testing::TinyParts;

/// An encoder with positions, which stretch, and a head.
class Encoder final : public Line {
 public:
  Encoder() {
    register_parameter("encoder_positions", at::zeros({4, 2}));
    auto encoder = std::make_shared<torch::nn::Module>();
    encoder->register_parameter("w", at::zeros({3}));
    encoder->register_buffer("mean", at::zeros({3}));
    register_module("encoder", encoder);
  }
  Tensor adapt(const std::string& name, const Tensor& saved) const override {
    return name == "encoder_positions" ? saved.repeat({2, 1}) : saved;
  }
};

class Initialising : public ::testing::Test {
 protected:
  /// A run that begins with a file's tensors.
  BuiltRun initialised(const NamedTensors& tensors, InitOptions options) {
    options.from = folder_ / "weights.safetensors";
    write_safetensors(options.from, {tensors, {}});
    TinyParts parts = clouds();
    parts.model = [] { return std::make_shared<Encoder>(); };
    BuiltRun run = tiny_run(parts, tiny_options());
    run.experiment.init = options;
    initialise(run, RunFolder(folder_ / "run"), testing::registry().catalogue());
    return run;
  }
  static Tensor parameter(const BuiltRun& run, const std::string& name) {
    return run.model->named_parameters()[name];
  }

  testing::TempFolder folder_;
};

TEST_F(Initialising, FillsAPartAndItsBuffers) {
  const BuiltRun run =
      initialised({{"w", at::ones({3})}, {"mean", at::full({3}, 2.0)}}, {.into = "encoder"});
  EXPECT_TRUE(parameter(run, "encoder.w").equal(at::ones({3})));
  EXPECT_TRUE(run.model->named_buffers()["encoder.mean"].equal(at::full({3}, 2.0)));
  EXPECT_EQ(run.initial_file, folder_ / "weights.safetensors");
}

TEST_F(Initialising, RenamesByAMapRuleAfterRule) {
  const std::string map = folder_.write("map.yaml", R"(schema: 1
rules:
  - {match: "^backbone\\.(.*)$", to: "net.$1"}
  - {match: "^net\\.kernel$", to: "w"}
  - {match: "^net\\.running_(.*)$", to: "$1"}
  - {match: "^head\\."}
)");
  const BuiltRun run = initialised({{"backbone.kernel", at::ones({3})},
                                    {"backbone.running_mean", at::ones({3})},
                                    {"head.bias", at::ones({7})}},
                                   {.map = map, .into = "encoder"});
  EXPECT_TRUE(parameter(run, "encoder.w").equal(at::ones({3})));
}

TEST_F(Initialising, FillsThePartOfATensorThatAMapNames) {
  const std::string map = folder_.write("map.yaml", R"(schema: 1
rules:
  - {match: "^first$", to: "w", part: 1/3}
  - {match: "^last$", to: "w", part: 3/3}
)");
  const BuiltRun run = initialised({{"first", at::full({1}, 5.0)}, {"last", at::full({1}, 7.0)}},
                                   {.map = map, .into = "encoder", .partial = true});
  EXPECT_TRUE(parameter(run, "encoder.w").equal(at::tensor({5.0F, 0.0F, 7.0F})));
  EXPECT_TRUE(parameter(run, "encoder.w").requires_grad());
  const auto refusal = [&](const NamedTensors& tensors, const std::string& part) {
    const std::string rules = "schema: 1\nrules: [{match: v, to: w, part: " + part + "}]";
    return message_of<DataError>([&] {
      initialised(tensors, {.map = folder_.write("map.yaml", rules), .into = "encoder"});
    });
  };
  EXPECT_THAT(refusal({{"v", at::ones({2})}}, "2/3"),
              mentions("encoder.w is [2] float32", "part 2 of 3", "expected [1] float32"));
  EXPECT_THAT(refusal({{"v", at::ones({2})}}, "1/2"),
              mentions("encoder.w is [3] float32", "no 2 equal parts"));
}

TEST_F(Initialising, TransposesWhereAMapSaysSo) {
  const auto with_rule = [&](const std::string& rule, const Tensor& matrix) {
    const std::string map = folder_.write("map.yaml", "schema: 1\nrules: [" + rule + "]");
    return initialised({{"m", matrix}}, {.map = map, .partial = true});
  };
  const Tensor matrix = at::arange(8.F).view({2, 4});
  const std::string whole = "{match: m, to: encoder_positions, transpose: true}";
  EXPECT_TRUE(parameter(with_rule(whole, matrix), "encoder_positions").equal(matrix.t()));
  const Tensor half = at::arange(4.F).view({2, 2});
  const BuiltRun run =
      with_rule("{match: m, to: encoder_positions, part: 2/2, transpose: true}", half);
  EXPECT_TRUE(parameter(run, "encoder_positions").equal(at::cat({at::zeros({2, 2}), half.t()})));
  EXPECT_THAT(message_of<DataError>([&] { with_rule(whole, at::ones({4})); }),
              mentions("m of the file", "[4] float32", "`transpose`"));
  for (const char* rule : {"{match: m, transpose: true}", "{match: m, to: w, transpose: false}"}) {
    EXPECT_THAT(message_of<ConfigError>([&] { with_rule(rule, matrix); }),
                HasSubstr("rule of a map"));
  }
}

TEST_F(Initialising, NamesAllThatFitsNowhereAndAllThatGetsNothing) {
  const NamedTensors tensors = {{"w", at::ones({3})}, {"v", at::ones({3})}};
  EXPECT_THAT(message_of<DataError>([&] { initialised(tensors, {.into = "encoder"}); }),
              AllOf(Not(HasSubstr("bias")),
                    mentions("encoder.v", "fits nowhere", "encoder.mean gets nothing")));
  const BuiltRun run = initialised(tensors, {.into = "encoder", .partial = true});
  EXPECT_TRUE(parameter(run, "encoder.w").equal(at::ones({3})));
}

TEST_F(Initialising, LetsTheModelAdaptOtherShapes) {
  const Tensor saved = at::arange(4.F).view({2, 2});
  const BuiltRun run = initialised({{"encoder_positions", saved}}, {.partial = true});
  EXPECT_TRUE(parameter(run, "encoder_positions").equal(saved.repeat({2, 1})));
  EXPECT_THAT(message_of<DataError>([&] {
                initialised({{"encoder.w", at::ones({5})}}, {.partial = true});
              }),
              HasSubstr("encoder.w is [5] float32, expected [3] float32"));
}

TEST_F(Initialising, RefusesWhatFillsNothing) {
  const NamedTensors tensors = {{"w", at::ones({3})}};
  EXPECT_THAT(
      message_of<ConfigError>([&] { initialised(tensors, {.into = "encodr", .partial = true}); }),
      mentions("init.into:", "'encodr'", "'encoder'"));
  EXPECT_THAT(message_of<DataError>([&] { initialised(tensors, {.partial = true}); }),
              mentions("weights.safetensors fills nothing", "w for one", "init.into"));
}

TEST_F(Initialising, RefusesTwoTensorsForOneParameter) {
  const auto refusal = [&](const std::string& rules) {
    const std::string map = folder_.write("map.yaml", "schema: 1\nrules: " + rules);
    const NamedTensors tensors = {{"one", at::ones({1})}, {"two", at::ones({1})}};
    return message_of<DataError>(
        [&] { initialised(tensors, {.map = map, .into = "encoder", .partial = true}); });
  };
  const auto told = mentions("both one and two", "encoder.w");
  EXPECT_THAT(refusal("[{match: one, to: w, part: 2/3}, {match: two, to: w, part: 2/3}]"), told);
  EXPECT_THAT(refusal("[{match: one, to: w, part: 2/3}, {match: two, to: w}]"), told);
}

TEST_F(Initialising, RefusesNamesOfMoreThanAThousandLetters) {
  const std::string map =
      folder_.write("map.yaml", "schema: 1\nrules: [{match: '^(x|y)*$', to: w}]");
  const auto initialised_by = [&](std::size_t letters) {
    return initialised({{std::string(letters, 'x'), at::ones({3})}},
                       {.map = map, .into = "encoder", .partial = true});
  };
  EXPECT_THAT(message_of<DataError>([&] { initialised_by(60000); }),
              mentions("weights.safetensors:", "init.map", "60000 letters", "1000: xxxx"));
  EXPECT_TRUE(parameter(initialised_by(1000), "encoder.w").equal(at::ones({3})));
}

TEST_F(Initialising, RefusesAMapThatIsNone) {
  const auto refusal = [&](const std::string& text) {
    const std::string map = folder_.write("map.yaml", text);
    return message_of<ConfigError>([&] { initialised({{"w", at::ones({3})}}, {.map = map}); });
  };
  EXPECT_THAT(refusal("rules: []"), HasSubstr("{schema: 1, rules: [...]}"));
  EXPECT_THAT(refusal("schema: 1\nrules: [{match: '(', to: x}]"),
              HasSubstr("map.yaml:2:17: not a regular expression"));
  EXPECT_THAT(refusal("schema: 1\nrules: [{match: a, too: x}]"), HasSubstr("rule of a map"));
  EXPECT_THAT(refusal("schema: 1\nrules: [{match: a, part: 1/3}]"), HasSubstr("rule of a map"));
  for (const char* part : {"0/3", "4/3", "1", "third", "1/99999"}) {
    EXPECT_THAT(refusal("schema: 1\nrules: [{match: a, to: w, part: " + std::string(part) + "}]"),
                mentions("map.yaml:2:33:", "`part`", "1/3"))
        << part;
  }
}

// ---- from another experiment's run

const std::string kParts = R"(schema: 1
model: {use: vit, patch_size: 7, dim: 8, depth: 1, heads: 2}
attention: quest
task: image_classification
train: {epochs: 1, batch_size: 8, threads: 1, workers: 0, tensorboard: false}
)";

class FromAnotherRun : public ::testing::Test {
 protected:
  FromAnotherRun() {
    folder_.write("first.yaml", kParts + "dataset: {use: synthetic_images, train: 16, test: 8}\n");
    folder_.write("second.yaml", kParts +
                                     "dataset: {use: synthetic_images, train: 24, test: 8}\n"
                                     "init: {experiment: " +
                                     (folder_ / "first.yaml") + "}\n");
  }
  Experiment experiment(const std::string& name, const std::string& attention = "quest") const {
    return load_experiment(folder_ / (name + ".yaml"), {"attention=" + attention},
                           testing::registry().catalogue());
  }
  RunFolder folder(const Experiment& experiment) const {
    return RunFolder::of(folder_ / "runs", experiment, 3);
  }
  BuiltRun built(const Experiment& experiment) const {
    BuiltRun run = build_run(experiment, 3, testing::registry());
    initialise(run, folder(experiment), testing::registry().catalogue());
    return run;
  }
  RunStatus trained(const Experiment& experiment) const {
    BuiltRun run = built(experiment);
    folder(experiment).freeze(experiment, 3);
    testing::StopAfter sink;
    return train_run(run, folder(experiment), sink, sink.stop);
  }
  static void begin_at(const RunFolder& place, const char* started) {
    const RunStatus status = place.status();
    nlohmann::json environment = nlohmann::json::parse(read_text(place.file("environment.json")));
    environment["started"] = started;
    write_file(place.file("environment.json"), environment.dump());
    place.write_status(status);  // which holds a check of that file
  }
  /// What a run that was trained would begin with otherwise now.
  std::string change(const Experiment& experiment) const {
    const auto source =
        source_run(experiment, 3, folder(experiment), testing::registry().catalogue());
    return source_change(experiment, folder(experiment), source);
  }

  testing::TempFolder folder_;
};

TEST_F(FromAnotherRun, BeginsWithTheFinishedRunOfTheSameAttentionAndSeed) {
  const Experiment first = experiment("first"), second = experiment("second");
  ASSERT_EQ(trained(first).state, RunState::done);
  const TensorFile file = read_safetensors(folder(first).file("checkpoint.safetensors"));
  const BuiltRun run = built(second);
  for (const auto& item : run.model->named_parameters()) {
    EXPECT_TRUE(item.value().equal(file.tensors.at("model." + item.key()))) << item.key();
  }
  ASSERT_EQ(trained(second).state, RunState::done);
  EXPECT_THAT(read_text(folder(second).file("environment.json")),
              HasSubstr(folder(first).path() + "/checkpoint.safetensors"));
  EXPECT_NE(second.hash(), experiment("first").hash());
}

TEST_F(FromAnotherRun, BeginsWithTheBestEpochOfARunThatChoosesOne) {
  std::string first = read_text(folder_ / "first.yaml");
  first.replace(first.find("{epochs: 1"), 10, "{epochs: 1, protocol: published");
  folder_.write("first.yaml", first);
  const Experiment source = experiment("first"), second = experiment("second");
  ASSERT_EQ(trained(source).state, RunState::done);
  const std::string best = folder(source).file("best.safetensors");
  EXPECT_EQ(built(second).initial_file, best);
  std::filesystem::remove(best);
  EXPECT_THAT(message_of<FileError>([&] { built(second); }), HasSubstr(best))
      << "the last epoch's model is not that of the result";
}

TEST_F(FromAnotherRun, TakesTheConfigurationThatItMeansWhateverTheRunIsCalled) {
  Experiment first = load_experiment(folder_ / "first.yaml", {"train.optimizer.lr=0.01"},
                                     testing::registry().catalogue());
  first.name = "first,lr=0.01";
  ASSERT_EQ(trained(first).state, RunState::done);
  Experiment second = experiment("second");
  EXPECT_THROW(built(second), DataMissingError) << "its file has another learning rate";
  set_source(second, first.hash_without_attention(), {});
  EXPECT_EQ(built(second).initial_file, folder(first).file("checkpoint.safetensors"));
}

TEST_F(FromAnotherRun, BeginsWithTheOneBegunLastOfSeveralInACopyToo) {
  Experiment one = experiment("first"), other = experiment("first");
  one.name = "one";
  other.name = "other";
  for (const Experiment* made : {&one, &other}) ASSERT_EQ(trained(*made).state, RunState::done);
  for (const Experiment* later : {&one, &other}) {
    const Experiment* earlier = later == &one ? &other : &one;
    begin_at(folder(*later), "2026-03-01T00:00:01Z");
    begin_at(folder(*earlier), "2026-03-01T00:00:00Z");
    // A copy's files have the times at which they were copied.
    std::filesystem::last_write_time(
        folder(*later).file("status.json"),
        std::filesystem::last_write_time(folder(*earlier).file("status.json")) -
            std::chrono::hours(1));
    EXPECT_EQ(built(experiment("second")).initial_file,
              folder(*later).file("checkpoint.safetensors"));
  }
}

TEST_F(FromAnotherRun, BeginsWithAnEarlierOneWhereTheLastIsAStoredResult) {
  Experiment one = experiment("first"), other = experiment("first");
  one.name = "one";
  other.name = "other";
  for (const Experiment* made : {&one, &other}) ASSERT_EQ(trained(*made).state, RunState::done);
  begin_at(folder(one), "2026-03-01T00:00:00Z");
  begin_at(folder(other), "2026-03-01T00:00:01Z");
  const std::string later = folder(other).file("checkpoint.safetensors");
  EXPECT_EQ(built(experiment("second")).initial_file, later);
  std::filesystem::remove(later);
  EXPECT_THAT(message_of<FileError>([&] { built(experiment("second")); }), HasSubstr(later))
      << "it was made here: what it lacks is named";
  write_file(folder(other).file("stored.json"), "{}");  // as of a stored result, which has none
  const std::string earlier = folder(one).file("checkpoint.safetensors");
  EXPECT_EQ(built(experiment("second")).initial_file, earlier);
  std::filesystem::remove(earlier);
  write_file(folder(one).file("stored.json"), "{}");
  EXPECT_THAT(message_of<DataError>([&] { built(experiment("second")); }),
              mentions(later, "stored result", "no weights"));
}

TEST_F(FromAnotherRun, NoticesThatTheOtherRunIsAnotherByNow) {
  namespace fs = std::filesystem;
  const Experiment first = experiment("first"), second = experiment("second");
  ASSERT_EQ(trained(first).state, RunState::done);
  EXPECT_EQ(change(second), "") << "it has not begun";
  ASSERT_EQ(trained(second).state, RunState::done);
  EXPECT_EQ(change(second), "");
  EXPECT_EQ(change(first), "") << "which begins with nothing";
  const RunFolder old = folder(first);
  const RunFolder again(fs::path(old.path()).parent_path() / "3-ffffffff");  // of other data, say
  fs::copy(old.path(), again.path(), fs::copy_options::recursive);
  begin_at(again, "2100-01-01T00:00:00Z");
  EXPECT_THAT(change(second), AllOf(HasSubstr("it began with " + old.place() + ", and the run of"),
                                    HasSubstr(again.place() + " by now")));
  fs::remove_all(old.path());
  EXPECT_THAT(change(second), HasSubstr(again.place())) << "also where the first one was deleted";
  fs::remove_all(again.path());
  EXPECT_EQ(change(second), "") << "nothing is there to begin with";
}

TEST_F(FromAnotherRun, NoticesThatTheMapIsAnotherByNow) {
  const auto map = [&](const std::string& rules) {
    folder_.write("map.yaml", "schema: 1\nrules: [" + rules + "]\n");
  };
  map("");
  folder_.write("second.yaml", kParts +
                                   "dataset: {use: synthetic_images, train: 24, test: 8}\n"
                                   "init: {experiment: " +
                                   (folder_ / "first.yaml") + ", map: " + (folder_ / "map.yaml") +
                                   "}\n");
  const Experiment second = experiment("second");
  ASSERT_EQ(trained(experiment("first")).state, RunState::done);
  ASSERT_EQ(trained(second).state, RunState::done);
  EXPECT_EQ(change(second), "");
  map(R"({match: "^nothing$"})");
  EXPECT_THAT(change(second), mentions("map.yaml'", "init.map changed"));
  std::filesystem::remove(folder_ / "map.yaml");
  EXPECT_EQ(change(second), "") << "nothing to compare it with";
}

TEST_F(FromAnotherRun, IsAnotherRunWhereTheOtherExperimentChanges) {
  const Experiment before = experiment("second");
  folder_.write("first.yaml", kParts + "dataset: {use: synthetic_images, train: 32, test: 8}\n");
  EXPECT_NE(experiment("second").hash(), before.hash());
  EXPECT_EQ(resolve_experiment(before.resolved, testing::registry().catalogue(), "second").hash(),
            before.hash())
      << "what was frozen stays";
}

TEST_F(FromAnotherRun, RefusesExperimentsThatBeginWithEachOther) {
  folder_.write("first.yaml", kParts +
                                  "dataset: {use: synthetic_images, train: 16, test: 8}\n"
                                  "init: {experiment: " +
                                  (folder_ / "second.yaml") + "}\n");
  EXPECT_THAT(
      message_of<ConfigError>([&] { experiment("second"); }),
      AllOf(HasSubstr("second.yaml:7:20: init.experiment: "), HasSubstr("begin with each other")));
}

TEST_F(FromAnotherRun, SaysHowToMakeTheRunThatIsMissing) {
  const auto refusal = [&](const std::string& attention) {
    return message_of<DataMissingError>([&] { built(experiment("second", attention)); });
  };
  EXPECT_THAT(
      refusal("quest"),
      AllOf(HasSubstr("first.yaml' (configuration " + experiment("second").init->configuration +
                      ") with attention 'quest' and seed 3"),
            HasSubstr("first.yaml attention=quest seeds=[3] --out " + (folder_ / "runs"))));
  trained(experiment("first"));
  EXPECT_THAT(refusal("standard"), HasSubstr("attention 'standard'"));
}

TEST(InitOptions, AreCheckedWithTheirPlaces) {
  const auto resolved = [](const std::string& init) {
    return resolve_experiment(parse_yaml(kParts + "dataset: synthetic_images\n" + init, "f.yaml"),
                              testing::registry().catalogue(), "f");
  };
  EXPECT_THAT(message_of<ConfigError>([&] { resolved("init: {into: a}\n"); }),
              mentions("f.yaml:7:7:", "init:", "`from`", "`experiment`"));
  EXPECT_THAT(message_of<ConfigError>([&] { resolved("init: {form: a}\n"); }),
              HasSubstr("did you mean 'from'?"));
  EXPECT_EQ(resolved("init: {from: a}\n").init->from, "a");
  EXPECT_FALSE(resolved("").init.has_value());
}

}  // namespace
}  // namespace attnlab::initialise_test
