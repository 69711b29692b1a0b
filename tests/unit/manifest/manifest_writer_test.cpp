#include "framework/manifest/manifest_writer.h"

#include <bit>
#include <cmath>
#include <random>

#include "framework/base/text.h"
#include "tests/support/compositions.h"

namespace attnlab::manifest_writer_test {
namespace {

using namespace testing;
using nlohmann::json;

template <class T>
std::string written(const T& value) {
  JsonText out;
  out.value(value);
  return out.text();
}

/// What a reader of manifests makes of a number.
double read_back(double number) {
  const json value = json::parse(written(number));
  if (value.is_object()) return std::bit_cast<double>(value.at("bits").get<std::int64_t>());
  return value.get<double>();
}

TEST(JsonText, PutsCommasWhereTheyBelong) {
  JsonText out;
  out.open('{').member("a", std::int64_t{1}).key("b").open('[').value("x").value(true);
  out.open('{').close('}').close(']').member("c", Names{"p", "q"}).member("d", Names{}).close('}');
  EXPECT_EQ(out.text(), R"({"a":1,"b":["x",true,{}],"c":["p","q"],"d":[]})");
}

TEST(JsonText, EscapesWhatJsonMustNotHoldPlain) {
  const std::string nasty = "quote\" back\\ line\n tab\t bell\x07 é ∞";
  EXPECT_EQ(json::parse(written(nasty)).get<std::string>(), nasty);
}

TEST(JsonText, WritesIntegersOfEverySize) {
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(written(number), std::to_string(number));
  }
}

TEST(JsonText, WritesTheDecimalsOfPeopleShort) {
  EXPECT_EQ(written(0.5), "5e-1");
  EXPECT_EQ(written(-0.05), "-5e-2");
  EXPECT_EQ(written(1e-12), "1e-12");
  EXPECT_EQ(written(128.0), "128");
  EXPECT_EQ(written(std::numeric_limits<double>::infinity()), "\".inf\"");
  EXPECT_EQ(written(-std::numeric_limits<double>::infinity()), "\"-.inf\"");
  EXPECT_EQ(written(std::numeric_limits<double>::quiet_NaN()), "\".nan\"");
}

TEST(JsonText, WritesEveryNumberSoThatItReadsBackExactly) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 200000; ++i) {
    const double number = std::bit_cast<double>(random());
    if (!std::isfinite(number)) continue;
    ASSERT_EQ(read_back(number), number) << shortest(number);
  }
  for (int i = 0; i < 200000; ++i) {  // decimals as people write them
    const double digits = static_cast<double>(random() % 1000000);
    const double number = std::stod(shortest(digits) + "e-" + std::to_string(random() % 30));
    ASSERT_EQ(read_back(number), number) << shortest(number);
    ASSERT_EQ(read_back(-number), -number) << shortest(number);
  }
}

// ---- a whole declaration, written at compile time

struct GroupOptions {
  double decay = 0.05;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("decay", decay, at_least(0), "decay");
  }
};

struct DeclaredOptions {
  std::int64_t dim = 0;
  std::string kind = "a";
  std::vector<double> rates = {0.1};
  GroupOptions group;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("dim", dim, required(at_least(1)), "channels");
    v("kind", kind, one_of("a", "b"), "which");
    v("rates", rates, "several");
    v("group", group, "more");
  }
};

struct Declaration {
  static constexpr std::string text() {
    JsonText out;
    write_schema<DeclaredOptions>(out);
    return out.text();
  }
};

constexpr auto kStored = detail::embed<Declaration>();

TEST(WriteSchema, RunsAtCompileTimeAndNamesEveryPropertyOfEveryOption) {
  const json schema = json::parse(std::string(kStored.data()));
  EXPECT_EQ(schema, json::parse(R"([
    {"name": "dim", "type": "int", "low": 1, "required": true, "help": "channels"},
    {"name": "kind", "type": "string", "choices": ["a", "b"], "default": "a", "help": "which"},
    {"name": "rates", "type": "float", "list": true, "default": [0.1], "help": "several"},
    {"name": "group", "type": "group", "help": "more", "options": [
      {"name": "decay", "type": "float", "low": 0, "default": 0.05, "help": "decay"}]}])"));
}

TEST(WriteSchema, StoresTheTextWithOneZeroAtItsEnd) {
  EXPECT_EQ(kStored.size(), Declaration::text().size() + 1);
  EXPECT_EQ(kStored.back(), '\0');
}

TEST(Kind, HasTheNamesThatCompositionsUse) {
  EXPECT_EQ(name_of(Kind::attention), "attention");
  EXPECT_EQ(name_of(Kind::model), "model");
  EXPECT_EQ(name_of(Kind::task), "task");
  EXPECT_EQ(name_of(Kind::dataset), "dataset");
}

struct ScaleOptions {
  double scale = 0.5;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("scale", scale, "a factor");
  }
};

struct NamedScales {
  OptionMap<ScaleOptions> groups;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("groups", groups, "by name");
  }
};

struct NamedScalesText {
  static constexpr std::string text() {
    JsonText out;
    write_schema<NamedScales>(out);
    return out.text();
  }
};

TEST(SchemaWriter, WritesMapsOfFreeNamesAtCompileTime) {
  static constexpr auto kText = detail::embed<NamedScalesText>();
  EXPECT_STREQ(kText.data(),
               R"([{"name":"groups","type":"map","options":[{"name":"scale","type":"float",)"
               R"("default":5e-1,"help":"a factor"}],"help":"by name"}])");
}

TEST(Names, HaveRoomForManyFields) {
  constexpr Names kNames = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d",
                            "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"};
  EXPECT_EQ(json::parse(written(kNames)).size(), 27U);
}

}  // namespace
}  // namespace attnlab::manifest_writer_test
