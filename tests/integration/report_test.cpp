// attnlab report: files in every format from run folders alone, and the page in a real browser.
#include <filesystem>

#include "framework/runs/run_folder.h"
#include "tests/integration/browser.h"
#include "tests/integration/workspace.h"
#include "tests/support/made_runs.h"

namespace attnlab::testing::report_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kHostile = "<img src=x onerror=alert(1)>\"'&é";

class ReportCommand : public Workspace {
 protected:
  ReportCommand() : catalogue_(Catalogue::of_this_program()) {}

  /// A run's folder with a status, learning curves and a trace of our own.
  std::string made_run(const std::string& attention, int seed, const RunStatus& status,
                       const std::vector<std::string>& changes = {}) const {
    std::vector<std::string> overrides = {"attention=" + attention};
    overrides.insert(overrides.end(), changes.begin(), changes.end());
    const Experiment experiment = load_experiment(at("tiny.yaml"), overrides, catalogue_);
    const RunFolder folder = RunFolder::of(at("runs"), experiment, seed);
    folder.freeze(experiment, seed);
    folder.write_status(status);
    write_environment(folder);
    std::string lines;
    for (int step = 1; step <= 8; ++step) {
      const std::string at_step = "\"step\":" + std::to_string(step);
      lines += R"({"split":"train",)" + at_step + R"(,"loss":)" +
               std::to_string(2.0 / step + 0.1 * seed) + "}\n";
      lines += R"({"split":"trace","layer":0,)" + at_step + R"(,"entropy":)" +
               std::to_string(3.0 - 0.1 * step) + "}\n";
    }
    folder_.write(fs::relative(folder.file("metrics.jsonl"), at("")).string(), lines);
    return folder.path();
  }
  static RunStatus done(double accuracy) {
    return {
        RunState::done, 8, 8, 2, 1.5, {{"accuracy", accuracy}, {"examples_per_second", 1000}}, ""};
  }
  /// Standard, quest and one with a hostile name; quest is best; one run diverged, one failed.
  void make_suite() const {
    for (int seed = 0; seed < 7; ++seed) {
      made_run("standard", seed, done(0.5 + 0.001 * seed));
      made_run("quest", seed, done(0.6 + 0.01 * seed));
      const std::vector<std::string> named = {std::string("attention.as=") + json(kHostile).dump()};
      RunStatus status = done(0.4 + 0.001 * seed);
      if (seed == 0) status = {RunState::diverged, 3, 8, 1, 1, {}, "the loss is nan at step 3"};
      if (seed == 1) status = {RunState::failed, 0, 8, 0, 1, {}, "killed by signal 9 (Killed)"};
      made_run("qknorm", seed, status, named);
    }
  }

  /// Two attentions at two learning rates with six seeds each, as a suite with a grid files them.
  void make_grid() const {
    json runs = json::array(), points = json::array();
    for (const std::string lr : {"0.001", "0.01"}) {
      const std::string name = "tiny,lr=" + lr;
      points.push_back({{"experiment", name},
                        {"base", "tiny"},
                        {"values", json::array({json::array({"lr", lr})})}});
      for (int run = 0; run < 12; ++run) {
        const std::string attention = run % 2 == 0 ? "standard" : "quest";
        RunStatus status = done(0.3 + 0.05 * run);
        status.metrics["outcome/correct"] = run > 6 ? 1 : 0;
        const std::vector<std::string> point = {"name=\"" + name + "\"",
                                                "train.optimizer.lr=" + lr};
        runs.push_back({{"folder", made_run(attention, run / 2, status, point)}});
      }
    }
    const json record = {{"suite", "runs"},
                         {"baseline", "standard"},
                         {"runs", runs},
                         {"grid", {{"points", points}, {"pool", {"lr"}}}}};
    folder_.write("runs/suite.json", record.dump());
  }

  Catalogue catalogue_;
};

TEST_F(ReportCommand, WritesEveryFormatBesideTheRuns) {
  make_suite();
  for (const std::vector<std::string>& one :
       {std::vector<std::string>{"html", "html", "<!DOCTYPE html>"},
        {"md", "md", "# "},
        {"latex", "tex", "% Made by attnlab"},
        {"csv", "csv", "experiment,attention,seed"},
        {"json", "json", "{"}}) {
    EXPECT_EQ(must({"report", "runs", "--format", one[0]}).out,
              "runs/report." + one[1] + "\n" + (one[0] == "html" ? "runs/table.csv\n" : ""));
    EXPECT_THAT(file_text(at("runs/report." + one[1])), StartsWith(one[2]));
  }
  EXPECT_TRUE(files_like(".tmp-").empty());
  EXPECT_THAT(file_text(at("runs/table.csv")), StartsWith("experiment,attention,metric"));
  const json all = json::parse(file_text(at("runs/report.json")));
  EXPECT_EQ(all.at("runs").size(), 21U);
  EXPECT_EQ(all.at("command"), "attnlab report runs --format json");
  EXPECT_EQ(must({"report", "runs", "-o", "-", "--format", "csv"}).out,
            file_text(at("runs/report.csv")));
}

TEST_F(ReportCommand, TakesTheFormatFromTheFilesName) {
  make_suite();
  EXPECT_EQ(must({"report", "runs", "-o", "table.tex", "--bib", "cited.bib"}).out,
            "table.tex\ncited.bib\n");
  EXPECT_THAT(file_text(at("table.tex")),
              AllOf(HasSubstr("\\begin{tabular}"), Not(HasSubstr("@misc"))));
  EXPECT_THAT(file_text(at("cited.bib")),
              AllOf(HasSubstr("title = {{QUEST: "), HasSubstr("attnlab/quest"),
                    HasSubstr("year = {2026}")));
}

TEST_F(ReportCommand, NamesWhatItCannotDo) {
  EXPECT_THAT(refusal({"report", "nowhere"}), mentions("nowhere: ", "no such folder"));
  fs::create_directory(at("empty"));
  EXPECT_THAT(attnlab({"report", "empty"}).err, mentions("empty: ", "no run folder"));
  made_run("standard", 0, done(0.5));
  const Ended format = attnlab({"report", "runs", "--format", "hmtl"});
  EXPECT_EQ(format.exit_code, 2);
  EXPECT_THAT(format.err, mentions("format 'hmtl'", "did you mean 'html'?"));
  const Ended folder = attnlab({"report", "runs", "-o", "no/where/page.html"});
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_THAT(folder.err, mentions("no folder no/where", "mkdir -p"));
  EXPECT_THAT(attnlab({"report", "runs", "-o", "runs"}).err, HasSubstr("is a folder"));
  fs::create_symlink("/dev/null", at("nothing"));
  EXPECT_EQ(attnlab({"report", "runs", "-o", "nothing"}).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(at("nothing")) && fs::is_character_file(at("nothing")));
  EXPECT_THAT(attnlab({"report", "runs", "--bib", "x.bib"}).err, HasSubstr("--format latex"));
  EXPECT_THAT(attnlab({"report", "runs", "--metric", "acuracy"}).err,
              HasSubstr("did you mean 'accuracy'?"));
  EXPECT_FALSE(exists("runs/report.html"));
}

TEST_F(ReportCommand, LeavesTheOldPageWhereTheDiskIsFull) {
  make_suite();
  folder_.write("runs/report.html", "old");
  Invocation full = invocation({"report", "runs"});
  full.largest_file = 50000;
  const Ended ended = run(full);
  EXPECT_NE(ended.exit_code, 0) << ended.story();
  EXPECT_EQ(file_text(at("runs/report.html")), "old");
  EXPECT_TRUE(files_like(".tmp-").empty());
}

TEST_F(ReportCommand, NeedsNoLibTorch) {
  made_run("standard", 0, done(0.5));
  const Ended ended = must({"report", "runs"}, {{"LD_DEBUG", "files"}});
  EXPECT_THAT(ended.err, HasSubstr("libattnlab_core.so")) << "LD_DEBUG shows no files";
  EXPECT_THAT(ended.err, Not(HasSubstr("libtorch")));
}

TEST_F(ReportCommand, DrawsWhatARealRunRecorded) {
  must({"run", "tiny.yaml", "trace.every=2"});
  must({"report", "runs", "--format", "json"});
  const json all = json::parse(file_text(at("runs/report.json")));
  bool loss = false, entropy = false;
  for (const json& curve : all.at("curves")) {
    loss |= curve.at("split") == "train" && curve.at("metric") == "loss" &&
            curve.at("steps").size() == 8;
    entropy |= curve.at("split") == "trace" && curve.at("metric") == "entropy" &&
               curve.at("layer") == "0" && curve.at("steps").size() == 5;  // 1, 2, 4, 6, 8
  }
  EXPECT_TRUE(loss) << all.at("curves");
  EXPECT_TRUE(entropy) << all.at("curves");
  EXPECT_EQ(all.at("runs").at(0).at("environment").at("device"), "cpu");
}

// ---- in a browser

// A page around it, as wide as a phone: browsers make no window so narrow.
std::string on_a_phone(int width) {
  return "<!DOCTYPE html><iframe src=\"look.html\" width=\"" + std::to_string(width) +
         R"(" height="740" style="border:0"></iframe><pre id="seen"></pre><script>
addEventListener('message', (event) => {
  document.getElementById('seen').textContent = event.data;
});
</script>)";
}

// Looks at the page, and sorts a table.
constexpr const char* kLook = R"(
const table = document.getElementById('results-table');
const column = (at) => [...table.tBodies[0].rows].map((row) => row.cells[at].textContent);
const heads = [...table.tHead.rows[0].cells];
const painted = (canvas) => {
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.some((value) => value !== 0);
};
const visible = () => [...document.querySelectorAll('canvas')].filter((canvas) => canvas.offsetWidth > 0);
const seen = {width: innerWidth, page: document.documentElement.scrollWidth};
seen.dark = getComputedStyle(document.body).backgroundColor;
seen.charts = visible().map(painted);
seen.headers = document.querySelector('header').offsetHeight;
seen.titles = [...document.querySelectorAll('h2')].map((title) => title.textContent);
seen.before = column(1);
heads[3].querySelector('button').click();
seen.ascending = [heads[3].getAttribute('aria-sort'), ...column(1)];
heads[3].querySelector('button').click();
seen.descending = [heads[3].getAttribute('aria-sort'), ...column(1)];
seen.said = document.getElementById('said').textContent;
seen.images = document.images.length;
seen.requests = performance.getEntriesByType('resource').map((entry) => entry.name);
const metric = [...document.querySelectorAll('#curves-controls select')];
seen.choices = metric.map((select) => [...select.options].map((option) => option.textContent));
document.querySelectorAll('.controls select').forEach((select) => {
  select.selectedIndex = select.options.length - 1;
  select.dispatchEvent(new Event('change'));
});
seen.after = visible().map(painted);
document.getElementById('theme').click();
seen.theme = document.documentElement.dataset.theme;
)";

class ReportPage : public ReportCommand {
 protected:
  void SetUp() override {
    if (browser().empty()) {
      GTEST_SKIP() << "no chromium in PATH; scripts/setup.sh --with browser installs it";
    }
    make_suite();
    must({"report", "runs"});
  }

  /// What the page shows. @param address  of the page: "look.html#theme=dark", or "phone.html"
  json look(const std::string& address = "look.html") const {
    folder_.write("look.html", watched(file_text(at("runs/report.html")), kLook));
    folder_.write("phone.html", on_a_phone(360));
    return seen_in_browser(folder_.path(), address);
  }
};

TEST_F(ReportPage, WorksInABrowserWithoutAnyError) {
  const json seen = look();
  EXPECT_EQ(seen.at("problems"), json::array());
  EXPECT_EQ(seen.at("requests"), json::array()) << "the page must need no other file";
  EXPECT_EQ(seen.at("images"), 0) << "a name became markup";
  // Curves, a trace for each of three attentions, accuracy against cost: all painted.
  EXPECT_EQ(seen.at("charts"), json(std::vector<bool>(5, true)));
  EXPECT_EQ(seen.at("after"), json(std::vector<bool>(5, true)));
  EXPECT_EQ(seen.at("theme"), "light") << "one click from auto";
  EXPECT_EQ(seen.at("titles").size(), 10U) << seen.at("titles");
}

TEST_F(ReportPage, DrawsTheGridAndTheDistributions) {
  fs::remove_all(at("runs"));
  make_grid();
  must({"report", "runs"});
  const json seen = look();
  EXPECT_EQ(seen.at("problems"), json::array());
  // The grid, a distribution for each attention, curves, two traces, accuracy against cost.
  EXPECT_EQ(seen.at("charts"), json(std::vector<bool>(7, true)));
  EXPECT_EQ(seen.at("after"), json(std::vector<bool>(7, true)));
  EXPECT_EQ(seen.at("titles").size(), 12U) << seen.at("titles");
  EXPECT_EQ(seen.at("choices").at(0).at(0), "tiny, all 2 points");
  const json phone = look("phone.html");
  EXPECT_LE(phone.at("page"), 360) << "the page scrolls sideways on a phone";
  EXPECT_EQ(phone.at("problems"), json::array());
}

TEST_F(ReportPage, ShowsOneSectionAloneForAPicture) {
  fs::remove_all(at("runs"));
  make_grid();
  must({"report", "runs"});
  const json alone = look("look.html#only=distributions&distribution=accuracy&theme=dark");
  EXPECT_EQ(alone.at("problems"), json::array());
  EXPECT_EQ(alone.at("charts"), json(std::vector<bool>(2, true))) << "one for each attention";
  EXPECT_EQ(alone.at("headers"), 0);
  EXPECT_EQ(look("look.html#only=nothing").at("charts").size(), 7U) << "no such section: the page";
}

TEST_F(ReportPage, SortsItsTableAndSaysSo) {
  const json seen = look();
  const std::string standard = "standard (baseline)";
  EXPECT_EQ(seen.at("before"), json({standard, kHostile, "quest"}));
  EXPECT_EQ(seen.at("ascending"), json({"ascending", kHostile, standard, "quest"}));
  EXPECT_EQ(seen.at("descending"), json({"descending", "quest", standard, kHostile}));
  EXPECT_THAT(seen.at("said").get<std::string>(), mentions("accuracy (%)", "largest first"));
}

TEST_F(ReportPage, FitsAPhone) {
  const json seen = look("phone.html");
  EXPECT_EQ(seen.at("width"), 360);
  EXPECT_LE(seen.at("page"), seen.at("width")) << "the page scrolls sideways";
  EXPECT_EQ(seen.at("charts"), json(std::vector<bool>(5, true)));
  EXPECT_EQ(seen.at("problems"), json::array());
}

// What does not fit, and what cannot be read. Contrast is that of WCAG 2.2, 1.4.3.
constexpr const char* kMeasure = R"js(
const style = (e) => getComputedStyle(e);
const shown = (e) => e.getClientRects().length > 0 && style(e).visibility === 'visible';
const named = (e) => e.tagName + ' ' + (e.className.baseVal ?? e.className) + ' ' + e.clientWidth;
const channels = (text) => (text.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
const behind = (e) => {
  for (let at = e; at; at = at.parentElement) {
    const rgb = channels(style(at).backgroundColor);
    if (rgb.length < 4 || rgb[3] === 1) return rgb;
  }
  return style(document.documentElement).colorScheme.includes('dark') ? [18, 18, 18] : [255, 255, 255];
};
const contrast = (e) => {
  const over = behind(e), rgb = channels(style(e).color);
  let alpha = rgb.length > 3 ? rgb[3] : 1;
  for (let at = e; at; at = at.parentElement) alpha *= style(at).opacity;
  const mixed = over.slice(0, 3).map((c, i) => c + (rgb[i] - c) * alpha);
  const [low, high] = [light(mixed), light(over)].sort((a, b) => a - b);
  return (high + .05) / (low + .05);
};
const all = [...document.querySelectorAll('body *')].filter(shown);
const wide = (e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1;
const tall = (e) => e.scrollHeight > e.clientHeight + 1 && e.clientHeight > 1;
const scrolls = (axis) => ['auto', 'scroll', 'hidden', 'clip'].includes(axis);
const hides = (e) => (wide(e) && scrolls(style(e).overflowX)) || (tall(e) && scrolls(style(e).overflowY));
const seen = {width: innerWidth, page: document.documentElement.scrollWidth};
seen.scrolled = all.filter(hides).length;
const shaded = (e) => style(e).backgroundAttachment.includes('local');
const told = (e) => e.tagName !== 'FIGURE' || !e.querySelector('svg > rect[fill="#fff"]') ||
    getComputedStyle(e, '::before').content.includes('scroll');
seen.cut = all.filter((e) => hides(e) && !(shaded(e) && told(e))).map(named);
seen.narrow = all.filter((e) => wide(e) && scrolls(style(e).overflowX) && e.clientWidth < .8 * innerWidth)
    .map(named);
seen.pale = all.filter((e) => !(e instanceof SVGElement) && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
    .filter((e) => contrast(e) < 4.5).map((e) => named(e) + ' ' + contrast(e) + ' ' + e.textContent);
seen.small = [...document.querySelectorAll('svg text')].filter(shown).map((t) => {
  const m = t.getScreenCTM();
  return [parseFloat(style(t).fontSize) * Math.abs(m.a), t.textContent];
}).filter(([size]) => size < 8).map(([size, text]) => size.toFixed(1) + ' ' + text);
)js";

/// Twelve experiments with many metrics, as pages that do not fit a screen.
class PagesAtEachWidth : public ReportCommand {
 protected:
  void SetUp() override {
    if (browser().empty()) {
      GTEST_SKIP() << "no chromium in PATH; scripts/setup.sh --with browser installs it";
    }
    for (int experiment = 0; experiment < 12; ++experiment) {
      for (int seed = 0; seed < 3; ++seed) {
        for (const char* attention : {"standard", "quest", "qknorm"}) {
          RunStatus status = done(0.5 + 0.01 * seed + 0.02 * experiment);
          for (const char* fog : {"fog/1", "fog/2", "fog/3", "fog/4", "fog/5"}) {
            status.metrics[std::string(fog) + "/accuracy"] = 0.3 + 0.01 * seed;
          }
          made_run(attention, seed, status, {"name=experiment_" + std::to_string(experiment)});
        }
      }
    }
    must({"report", "runs"});
    must({"page", "runs"});
  }

  json measured(const std::string& file, int width, bool dark) const {
    std::string page = file_text(at("runs/" + file));
    const std::string asks = "prefers-color-scheme: dark";
    const std::size_t found = page.find(asks);
    EXPECT_NE(found, std::string::npos);
    if (dark) page.replace(found, asks.size(), "prefers-color-scheme: light");
    folder_.write("look.html", watched(page, kMeasure));
    folder_.write("phone.html", on_a_phone(width));
    return seen_in_browser(folder_.path(), width < 600 ? "phone.html" : "look.html",
                           {"--disable-gpu", "--window-size=" + std::to_string(width) + ",1400"});
  }
};

TEST_F(PagesAtEachWidth, CutNothingWithoutASignAndCanBeRead) {
  for (const char* file : {"report.html", "page.html"}) {
    for (const auto& [width, dark] :
         {std::pair(400, false), {800, false}, {1400, true}, {2500, false}}) {
      SCOPED_TRACE(std::string(file) + " " + std::to_string(width) + (dark ? " dark" : ""));
      const json seen = measured(file, width, dark);
      EXPECT_EQ(seen.at("problems"), json::array());
      EXPECT_EQ(seen.at("width"), width);
      EXPECT_LE(seen.at("page"), width) << "the page scrolls sideways";
      EXPECT_GT(seen.at("scrolled"), 0) << "nothing was too wide: the test shows nothing";
      EXPECT_EQ(seen.at("cut"), json::array()) << "more is there, and no shade says so";
      EXPECT_EQ(seen.at("pale"), json::array()) << "text with a contrast below 4.5";
      EXPECT_EQ(seen.at("small"), json::array()) << "text of a figure below 8 pixels";
      const json narrow = width > 600 ? seen.at("narrow") : json::array();
      EXPECT_EQ(narrow, json::array()) << "cut, and the window is wider";
    }
  }
}

TEST_F(ReportPage, IsDarkWhereThatIsAsked) {
  EXPECT_EQ(look("look.html#theme=light").at("dark"), "rgb(251, 251, 250)");
  EXPECT_EQ(look("look.html#theme=dark").at("dark"), "rgb(20, 22, 26)");
}

}  // namespace
}  // namespace attnlab::testing::report_test
