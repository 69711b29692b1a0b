// Pickles as Python wrote them: values, arrays, sparse matrices, tensors; and damaged ones.
#include "framework/data/formats/pickle.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/data_files.h"
#include "tests/support/pickles.h"

namespace attnlab::pickle_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;
using Kind = PickleValue::Kind;

// Written by Python 3.11, NumPy 1.24, SciPy 1.10 and PyTorch 1.13:
// pickle.dumps([None, True, False, 0, 255, 65535, -1, 2**31, -2**40, 1.5, "text", "\u00e9",
// b"by\xfftes",
//               (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {"a": 1, "b": [1, 2]}, {1, 2},
//               frozenset([3]), OrderedDict([("z", 1)]), defaultdict(list, {3: [4]})], protocol)
const char* const kPlain2 =
    "80025d7100284e88894b004bff4dffff4affffffff8a0500000080008a060000000000ff473ff800000000000058"
    "040000007465787471015802000000c3a97102635f636f646563730a656e636f64650a710358070000006279c3bf"
    "746573710458060000006c6174696e317105867106527107294b018571084b014b028671094b014b024b0387710a"
    "284b014b024b034b0474710b7d710c28580100000061710d4b01580100000062710e5d710f284b014b026575635f"
    "5f6275696c74696e5f5f0a7365740a71105d7111284b014b0265857112527113635f5f6275696c74696e5f5f0a66"
    "726f7a656e7365740a71145d71154b036185711652711763636f6c6c656374696f6e730a4f726465726564446963"
    "740a71182952711958010000007a711a4b017363636f6c6c656374696f6e730a64656661756c74646963740a711b"
    "635f5f6275696c74696e5f5f0a6c6973740a711c85711d52711e4b035d711f4b046173652e";
const char* const kPlain3 =
    "80035d7100284e88894b004bff4dffff4affffffff8a0500000080008a060000000000ff473ff800000000000058"
    "040000007465787471015802000000c3a9710243066279ff7465737103294b018571044b014b028671054b014b02"
    "4b03877106284b014b024b034b047471077d71082858010000006171094b01580100000062710a5d710b284b014b"
    "026575636275696c74696e730a7365740a710c5d710d284b014b026585710e52710f636275696c74696e730a6672"
    "6f7a656e7365740a71105d71114b036185711252711363636f6c6c656374696f6e730a4f72646572656444696374"
    "0a71142952711558010000007a71164b017363636f6c6c656374696f6e730a64656661756c74646963740a711763"
    "6275696c74696e730a6c6973740a711885711952711a4b035d711b4b046173652e";
const char* const kPlain5 =
    "800595dc000000000000005d94284e88894b004bff4dffff4affffffff8a0500000080008a060000000000ff473f"
    "f80000000000008c0474657874948c02c3a99443066279ff74657394294b0185944b014b0286944b014b024b0387"
    "94284b014b024b034b0474947d94288c0161944b018c0162945d94284b014b0265758f94284b014b0290284b0391"
    "948c0b636f6c6c656374696f6e73948c0b4f726465726564446963749493942952948c017a944b0173680e8c0b64"
    "656661756c74646963749493948c086275696c74696e73948c046c697374949394859452944b035d944b04617365"
    "2e";

// {"f": np.asfortranarray(np.arange(6).reshape(2, 3)), "s": np.float64(1.5),
//  "b": np.array([True, False]), "o": np.array([1, None, "a"], dtype=object), "i": np.int32(-7)}
const char* const kNumpy2 =
    "80027d7100285801000000667101636e756d70792e636f72652e6d756c746961727261790a5f7265636f6e737472"
    "7563740a7102636e756d70790a6e6461727261790a71034b00857104635f636f646563730a656e636f64650a7105"
    "580100000062710658060000006c6174696e31710786710852710987710a52710b284b014b024b0386710c636e75"
    "6d70790a64747970650a710d58020000006938710e898887710f527110284b0358010000003c71114e4e4e4affff"
    "ffff4affffffff4b0074711262886805583000000000000000000000000300000000000000010000000000000004"
    "00000000000000020000000000000005000000000000007113680786711452711574711662580100000073711763"
    "6e756d70792e636f72652e6d756c746961727261790a7363616c61720a7118680d58020000006638711989888771"
    "1a52711b284b0368114e4e4e4affffffff4affffffff4b0074711c6268055809000000000000000000c3b83f711d"
    "680786711e52711f8671205271215801000000627122680268034b008571236809877124527125284b014b028571"
    "26680d5802000000623171278988877128527129284b0358010000007c712a4e4e4e4affffffff4affffffff4b00"
    "74712b6289680558020000000100712c680786712d52712e74712f6258010000006f7130680268034b0085713168"
    "09877132527133284b014b03857134680d58020000004f3871358988877136527137284b03682a4e4e4e4affffff"
    "ff4affffffff4b3f74713862895d7139284b014e580100000061713a6574713b62580100000069713c6818680d58"
    "020000006934713d898887713e52713f284b0368114e4e4e4affffffff4affffffff4b0074714062680558080000"
    "00c3b9c3bfc3bfc3bf71416807867142527143867144527145752e";
const char* const kNumpy5 =
    "800595ec010000000000007d94288c0166948c126e756d70792e636f72652e6e756d65726963948c0b5f66726f6d"
    "62756666657294939428963000000000000000000000000000000003000000000000000100000000000000040000"
    "000000000002000000000000000500000000000000948c056e756d7079948c0564747970659493948c0269389489"
    "8887945294284b038c013c944e4e4e4affffffff4affffffff4b007494624b024b0386948c014694749452948c01"
    "73948c156e756d70792e636f72652e6d756c74696172726179948c067363616c617294939468088c026638948988"
    "87945294284b03680c4e4e4e4affffffff4affffffff4b007494624308000000000000f83f94869452948c016294"
    "68042896020000000000000001009468088c02623194898887945294284b038c017c944e4e4e4affffffff4affff"
    "ffff4b007494624b0285948c014394749452948c016f9468138c0c5f7265636f6e73747275637494939468068c07"
    "6e6461727261799493944b0085944301629487945294284b014b03859468088c024f3894898887945294284b0368"
    "224e4e4e4affffffff4affffffff4b3f749462895d94284b014e8c016194657494628c016994681568088c026934"
    "94898887945294284b03680c4e4e4e4affffffff4affffffff4b007494624304f9ffffff9486945294752e";

// scipy.sparse.csr_matrix([[1, 0, 2], [0, 0, 0], [0, 3, 0]], float32), protocol 4
const char* const kScipy =
    "8004956f010000000000008c1173636970792e7370617273652e5f637372948c0a6373725f6d6174726978949394"
    "2981947d94288c065f7368617065944b034b0386948c086d61787072696e74944b328c0464617461948c156e756d"
    "70792e636f72652e6d756c74696172726179948c0c5f7265636f6e7374727563749493948c056e756d7079948c07"
    "6e6461727261799493944b0085944301629487945294284b014b038594680c8c0564747970659493948c02663494"
    "898887945294284b038c013c944e4e4e4affffffff4affffffff4b0074946289430c0000803f0000004000004040"
    "947494628c07696e646963657394680b680e4b008594681087945294284b014b03859468158c0269349489888794"
    "5294284b0368194e4e4e4affffffff4affffffff4b0074946289430c000000000200000001000000947494628c06"
    "696e6470747294680b680e4b008594681087945294284b014b048594682489431000000000020000000200000003"
    "0000009474946275622e";

// base = torch.arange(12.).view(3, 4); [base.t(), base[1:, ::2], torch.tensor(True), torch.zeros(0,
// 3),
//  torch.tensor([1, 2], dtype=torch.int16)], protocol 3
const char* const kTorch =
    "80035d71002863746f7263682e5f7574696c730a5f72656275696c645f74656e736f725f76320a71012863746f72"
    "63682e73746f726167650a5f6c6f61645f66726f6d5f62797465730a7102422101000080028a0a6cfc9c46f9206a"
    "a850192e80024de9032e80027d710028581000000070726f746f636f6c5f76657273696f6e71014de903580d0000"
    "006c6974746c655f656e6469616e710288580a000000747970655f73697a657371037d710428580500000073686f"
    "727471054b025803000000696e7471064b0458040000006c6f6e6771074b0475752e800228580700000073746f72"
    "616765710063746f7263680a466c6f617453746f726167650a710158090000003438353836363434387102580300"
    "000063707571034b0c4e747104512e80025d710058090000003438353836363434387101612e0c00000000000000"
    "000000000000803f0000004000004040000080400000a0400000c0400000e0400000004100001041000020410000"
    "304171038571045271054b004b044b038671064b014b048671078963636f6c6c656374696f6e730a4f7264657265"
    "64446963740a71082952710974710a52710b6801286802422101000080028a0a6cfc9c46f9206aa850192e80024d"
    "e9032e80027d710028581000000070726f746f636f6c5f76657273696f6e71014de903580d0000006c6974746c65"
    "5f656e6469616e710288580a000000747970655f73697a657371037d710428580500000073686f727471054b0258"
    "03000000696e7471064b0458040000006c6f6e6771074b0475752e800228580700000073746f7261676571006374"
    "6f7263680a466c6f617453746f726167650a71015809000000343835383636343438710258030000006370757103"
    "4b0c4e747104512e80025d710058090000003438353836363434387101612e0c0000000000000000000000000080"
    "3f0000004000004040000080400000a0400000c0400000e04000000041000010410000204100003041710c85710d"
    "52710e4b044b024b0286710f4b044b0286711089680829527111747112527113680128680243f180028a0a6cfc9c"
    "46f9206aa850192e80024de9032e80027d710028581000000070726f746f636f6c5f76657273696f6e71014de903"
    "580d0000006c6974746c655f656e6469616e710288580a000000747970655f73697a657371037d71042858050000"
    "0073686f727471054b025803000000696e7471064b0458040000006c6f6e6771074b0475752e8002285807000000"
    "73746f72616765710063746f7263680a426f6f6c53746f726167650a710158090000003438363133393238307102"
    "580300000063707571034b014e747104512e80025d710058090000003438363133393238307101612e0100000000"
    "0000000171148571155271164b00292989680829527117747118527119680128680243f180028a0a6cfc9c46f920"
    "6aa850192e80024de9032e80027d710028581000000070726f746f636f6c5f76657273696f6e71014de903580d00"
    "00006c6974746c655f656e6469616e710288580a000000747970655f73697a657371037d71042858050000007368"
    "6f727471054b025803000000696e7471064b0458040000006c6f6e6771074b0475752e800228580700000073746f"
    "72616765710063746f7263680a466c6f617453746f726167650a7101580900000034383633363538303871025803"
    "00000063707571034b004e747104512e80025d710058090000003438363336353830387101612e00000000000000"
    "00711a85711b52711c4b004b004b0386711d4b034b0186711e8968082952711f747120527121680128680243f580"
    "028a0a6cfc9c46f9206aa850192e80024de9032e80027d710028581000000070726f746f636f6c5f76657273696f"
    "6e71014de903580d0000006c6974746c655f656e6469616e710288580a000000747970655f73697a657371037d71"
    "0428580500000073686f727471054b025803000000696e7471064b0458040000006c6f6e6771074b0475752e8002"
    "28580700000073746f72616765710063746f7263680a53686f727453746f726167650a7101580900000034383632"
    "34303736387102580300000063707571034b024e747104512e80025d710058090000003438363234303736387101"
    "612e02000000000000000100020071228571235271244b004b028571254b01857126896808295271277471285271"
    "29652e";

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

TEST(Pickles, AreValuesInEveryProtocol) {
  for (const char* hex : {kPlain2, kPlain3, kPlain5}) {
    const Pickle pickle(bytes_of(hex), "a.pickle");
    const PickleValue& all = pickle.root();
    ASSERT_EQ(all.length(), 23);
    EXPECT_EQ(all.item(0).kind(), Kind::none);
    EXPECT_EQ(all.item(1).integer(), 1);
    EXPECT_EQ(all.item(2).integer(), 0);
    const std::vector<std::int64_t> numbers = {0, 255, 65535, -1, 1LL << 31, -(1LL << 40)};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_EQ(all.item(std::int64_t(i) + 3).integer(), numbers[i]);
    }
    EXPECT_EQ(all.item(9).number(), 1.5);
    EXPECT_EQ(all.item(10).text(), "text");
    EXPECT_EQ(all.item(11).text(), "\xc3\xa9");
    EXPECT_EQ(all.item(12).text(), "by\xfftes");
    for (std::int64_t n = 0; n <= 4; ++n) {
      ASSERT_EQ(all.item(13 + n).length(), n);
      if (n > 0) {
        EXPECT_EQ(all.item(13 + n).item(n - 1).integer(), n);
      }
    }
    EXPECT_EQ(all.item(18).entry("a").integer(), 1);
    EXPECT_EQ(all.item(18).entry("b").item(1).integer(), 2);
    EXPECT_EQ(all.item(21).entry("z").integer(), 1);
    EXPECT_EQ(all.item(22).entries().at(0).first->integer(), 3);
    EXPECT_EQ(all.item(22).entries().at(0).second->item(0).integer(), 4);
  }
}

TEST(Pickles, HoldArraysOfNumPy) {
  for (const char* hex : {kNumpy2, kNumpy5}) {
    const Pickle pickle(bytes_of(hex), "a.pickle");
    const PickleValue& map = pickle.root();
    EXPECT_TRUE(map.entry("f").tensor().equal(at::arange(6).view({2, 3})));
    EXPECT_EQ(map.entry("s").number(), 1.5);
    EXPECT_TRUE(map.entry("b").tensor().equal(at::tensor({1, 0}).to(at::kBool)));
    EXPECT_EQ(map.entry("o").item(0).integer(), 1);
    EXPECT_EQ(map.entry("o").item(2).text(), "a");
    EXPECT_EQ(map.entry("i").integer(), -7);
  }
}

TEST(Pickles, HoldSparseMatricesAsObjects) {
  const Pickle pickle(bytes_of(kScipy), "a.pickle");
  EXPECT_THAT(pickle.root().class_name(), HasSubstr("csr_matrix"));
  const PickleValue& state = pickle.root().state();
  EXPECT_EQ(state.entry("_shape").item(1).integer(), 3);
  EXPECT_TRUE(state.entry("data").tensor().equal(at::tensor({1.f, 2.f, 3.f})));
  EXPECT_TRUE(
      state.entry("indices").tensor().to(at::kLong).equal(at::tensor({0, 2, 1}, at::kLong)));
}

TEST(Pickles, HoldTensorsOfPyTorch) {
  const Pickle pickle(bytes_of(kTorch), "a.pickle");
  const PickleValue& all = pickle.root();
  const Tensor base = at::arange(12, at::kFloat).view({3, 4});
  EXPECT_TRUE(all.item(0).tensor().equal(base.t()));
  EXPECT_TRUE(all.item(1).tensor().equal(base.slice(0, 1).slice(1, 0, 4, 2)));
  EXPECT_EQ(all.item(2).integer(), 1);
  EXPECT_EQ(all.item(3).tensor().sizes(), (at::IntArrayRef{0, 3}));
  EXPECT_TRUE(all.item(4).tensor().equal(at::tensor({1, 2}, at::kShort)));
}

TEST(Pickles, GiveNumbersThatAreNotFiniteAsTheyAre) {
  using namespace testing::pickles;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> numbers = {std::nan(""), kInfinity, -kInfinity, -0.0};
  const std::vector<float> narrow(numbers.begin(), numbers.end());
  const std::string inf_of_binary("G\x7f\xf0\0\0\0\0\0\0", 9);
  const std::string bytes =
      file(list({array("f8", {4}, numbers), array("f4", {2, 2}, narrow), inf_of_binary, "Fnan\n",
                 "F-inf\n", array("f4", {1}, std::vector<float>{narrow[0]})}));
  const Pickle pickle(bytes, "a.pickle");
  const PickleValue& all = pickle.root();
  const Tensor wide = all.item(0).tensor(), square = all.item(1).tensor();
  ASSERT_EQ(wide.nbytes(), numbers.size() * sizeof(double));
  EXPECT_EQ(std::memcmp(wide.data_ptr(), numbers.data(), wide.nbytes()), 0) << "bit for bit";
  ASSERT_EQ(square.nbytes(), narrow.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(square.data_ptr(), narrow.data(), square.nbytes()), 0) << "bit for bit";
  EXPECT_EQ(all.item(2).number(), kInfinity);
  EXPECT_TRUE(std::isnan(all.item(3).number()));
  EXPECT_EQ(all.item(4).number(), -kInfinity);
  EXPECT_TRUE(std::isnan(all.item(5).number()));
  EXPECT_THAT(message_of<DataError>([&] { all.item(5).integer(); }),
              mentions("an array where", "integer"));
}

TEST(Pickles, GiveTensorsOfPyTorchThatAreNotFiniteAsTheyAre) {
  std::string bytes = bytes_of(kTorch);
  const std::string one("\0\0\x80\x3f", 4), infinity("\0\0\x80\x7f", 4), nan("\0\0\xc0\x7f", 4);
  const std::string one_and_two = one + std::string("\0\0\0\x40", 4);
  const std::size_t at = bytes.find(one_and_two);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, one_and_two.size(), infinity + nan);
  const Pickle pickle(bytes, "a.pickle");
  const Tensor first = pickle.root().item(0).tensor();  // arange(12), the first row now 0 inf nan 3
  EXPECT_EQ(first[1][0].item<float>(), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(first[2][0].item<float>()));
  EXPECT_EQ(first[3][0].item<float>(), 3);
}

TEST(Pickles, SayWhereAValueIsOfAnotherKind) {
  const Pickle pickle(bytes_of(kPlain5), "a.pickle");
  const PickleValue& all = pickle.root();
  const auto refusal = [](auto ask) { return message_of<DataError>(ask); };
  EXPECT_THAT(refusal([&] { all.item(0).tensor(); }), mentions("a.pickle:", "None where", "array"));
  EXPECT_THAT(refusal([&] { all.item(10).integer(); }), mentions("a text where", "integer"));
  EXPECT_THAT(refusal([&] { all.item(99); }), HasSubstr("list of at least 100"));
  EXPECT_THAT(refusal([&] { all.entry("train"); }), mentions("a list where", "map"));
  EXPECT_THAT(refusal([&] { all.item(18).entry("c"); }), HasSubstr("a map with 'c'"));
}

TEST(Pickles, CallNothing) {
  // What Python would run as os.system("touch ...") is an object of that name.
  const Pickle pickle("cos\nsystem\n(S'touch owned'\ntR.", "a.pickle");
  EXPECT_EQ(pickle.root().class_name(), "os.system");
}

TEST(Pickles, RefuseDamageWithoutAnyOtherEnd) {
  std::size_t refused = 0, read = 0;
  for (const char* hex : {kPlain2, kPlain5, kNumpy2, kNumpy5, kScipy, kTorch}) {
    const std::string sound = bytes_of(hex);
    std::vector<std::string> damaged;
    for (std::size_t at = 0; at < sound.size(); ++at) {
      damaged.push_back(sound.substr(0, at));
      for (const int change : {0x01, 0x10, 0x80, 0xff}) {
        damaged.push_back(sound);
        damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ change);
      }
    }
    for (const std::string& bytes : damaged) {
      try {
        const Pickle pickle(bytes, "a.pickle");
        ++read;  // a changed number or text is as good as another
      } catch (const DataError& error) {
        EXPECT_THAT(error.what(), HasSubstr("a.pickle"));
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, read / 2);
}

TEST(Pickles, RefuseWhatReachesBeyondItsBytes) {
  const auto refusal = [](const std::string& bytes) {
    return message_of<DataError>([&] { Pickle(bytes, "a.pickle"); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("cut off"));
  EXPECT_THAT(refusal("\x80\x02X\xff\xff\xff\x7f"), HasSubstr("cut off"));
  EXPECT_THAT(refusal("\x80\x02h\x05."), HasSubstr("not kept"));
  EXPECT_THAT(refusal("\x80\x02t."), HasSubstr("mark"));
  for (const std::string kind : {"I", "F"}) {
    EXPECT_THAT(refusal("\x80\x02" + kind + std::string("1\0002\n.", 5)),
                mentions("'1\\x002'", "number"));
  }
  EXPECT_THAT(refusal("\x80\x02."), HasSubstr("stack is empty"));
  EXPECT_THAT(refusal("\x80\x02\xf0."), HasSubstr("operation 0xf0"));
  using namespace testing::pickles;
  EXPECT_THAT(refusal(file(array<float>("f4", {2, 3}, {1, 2}))), HasSubstr("its shape needs 6"));
  EXPECT_THAT(refusal(file(array<float>("f4", {-1}, {1, 2}))), HasSubstr("impossible shape"));
  const std::int64_t large = std::int64_t{1} << 30;
  EXPECT_THAT(refusal(file(array<float>("f4", {0, large, large, large}, {}))),
              HasSubstr("impossible shape"));
  EXPECT_THAT(refusal(file(array<float>("f4", std::vector<std::int64_t>(65, 1), {1}))),
              HasSubstr("impossible shape"));
  EXPECT_THAT(refusal("\x80\x02"
                      "Fone\n."),
              HasSubstr("'one' is not a number"));
  EXPECT_THAT(refusal("\x80\x02"
                      "I99999999999999999999\n."),
              HasSubstr("is not a number"));
  EXPECT_THAT(refusal(file(array<float>("c8", {1}, {1, 2}))), HasSubstr("dtype '<c8'"));
  // What stands for a storage, called: inner pickles are the magic number, version and system.
  const std::string inner = "N.N.N.NQ)R.";
  EXPECT_THAT(refusal(std::string("\x80\x03") + "ctorch.storage\n_load_from_bytes\nC" +
                      static_cast<char>(inner.size()) + inner + "\x85R."),
              HasSubstr("it calls a storage"));
  // A kept name of a megabyte, made again by every four bytes.
  std::string bomb =
      "\x80\x02"
      "c" +
      std::string(1 << 20, 'a') + "\nb\nq" + std::string(1, '\0');
  for (int i = 0; i < 300; ++i) bomb += std::string("h\0)R0", 5);
  EXPECT_THAT(refusal(bomb + "."), HasSubstr("more of its bytes"));
  // A list that holds itself is no more than that.
  const Pickle cycle(std::string("\x80\x02]q\0h\0a.", 9), "a.pickle");
  EXPECT_EQ(cycle.root().length(), 1);
}

}  // namespace
}  // namespace attnlab::pickle_test
