#include "core/plugin/options.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/host.hpp"
#include "kinora/options.hpp"
#include "tests/support/component.hpp"

namespace kinora::core {
namespace {

using testing::HasSubstr;

const ComponentSpec& sampler() {
  static const ComponentSpec spec = test::component(R"(
[[component]]
id = "sampler/x"
option.steps = { type = "int", default = 35, min = 1, max = 1000, unit = "intervals" }
option.sigma_min = { type = "float", default = 0.002, above = 0 }
option.sigma_max = { type = "float", default = inf, above = 0.0 }
option.shift = { type = "float", default = 1.0 }
option.at_most = { type = "float", default = 1e300, bound = true }
option.churn = { type = "bool", default = false }
option.cache = { type = "size", default = "64 MiB", min = 4096, max = 1073741824 }
option.mode = { type = "string", default = "fast", choices = ["fast", "exact"] }
option.sizes = { type = "ints", default = [1, 2], min = 1 }
option.scales = { type = "floats", default = [], below = 1.0 }
option.tags = { type = "strings", default = ["a"] }
option.weights = { type = "path", default = "" }
option.files = { type = "paths", default = [] }
option.parts = { type = "strings", default = [], unit = "JSON" }
)");
  return spec;
}

struct Nothing {};

struct OptionCase {
  const char* given;
  const char* path;  // null: no problem
  const char* says;
};

TEST(Options, APluginThatReadsWhatItsManifestLacksIsToldWhatToBuild) {
  const Options options = or_throw(Options::make(sampler(), json::object()));
  const auto& api = kinora::interface<kinora_options_api>(KINORA_INTERFACE_OPTIONS);
  const auto said = [&](const char* name) {
    double value = 0;
    const int32_t status = api.get_float(options.abi(), name, 0, &value);
    return status == KINORA_OK ? "no error" : from_abi(status, "call").failure().message;
  };
  EXPECT_EQ(said("sigma_min"), "no error");
  EXPECT_THAT(said("eta"), HasSubstr("no option 'eta' in the manifest; plugin.toml is not current: build the "
                                     "target NAME.manifest, then build again"));
  EXPECT_THAT(said("steps"), HasSubstr("option 'steps' is not a float in the manifest"));
}

TEST(Options, ReportsWhatIsWrongAndWhatIsRight) {
  const OptionCase cases[] = {
      {R"({})", nullptr, ""},
      {R"(null)", nullptr, ""},
      {R"({"steps": 1000, "sigma_min": 1, "cache": "2 MiB", "sizes": [], "churn": true})", nullptr, ""},
      {R"({"sigma_max": "inf"})", nullptr, ""},
      {R"({"sigma_max": "nan"})", "sigma_max", "takes a float above 0, found nan; write a finite number"},
      {R"({"sigma_min": "inf"})", "sigma_min",
       "option 'sigma_min' of sampler/x takes a float above 0, found inf"},
      {R"({"shift": "-inf"})", "shift", "takes a float, found -inf; write a finite number"},
      {R"({"shift": "nan"})", "shift", "takes a float, found nan; write a finite number"},
      {R"({"at_most": "inf"})", nullptr, ""},
      {R"({"at_most": "nan"})", "at_most", "found nan"},
      {R"({"scales": [0.5, "-inf"]})", "scales[1]", "found -inf"},
      {R"([1])", "", "options of sampler/x are a table, found a list of 1 item"},
      {R"({"stpes": 3})", "stpes", "unknown option 'stpes' of sampler/x, did you mean 'steps'?"},
      {R"({"colour": 3})", "colour", "unknown option 'colour' of sampler/x; it has: steps, sigma_min,"},
      {R"({"steps": "ten"})", "steps",
       R"(option 'steps' of sampler/x takes an int from 1 to 1000 (intervals), found the string "ten")"},
      {R"({"steps": 3.0})", "steps", "found the float 3.0"},
      {R"({"steps": true})", "steps", "found the bool true"},
      {R"({"steps": null})", "steps", "found nothing"},
      {R"({"steps": 0})", "steps", "takes an int from 1 to 1000 (intervals), found 0"},
      {R"({"steps": 1001})", "steps", "found 1001"},
      {R"({"steps": 18446744073709551615})", "steps", "found the int 18446744073709551615"},
      {R"({"sigma_min": 0})", "sigma_min", "takes a float above 0, found 0"},
      {R"({"sigma_min": "nan"})", "sigma_min", "takes a float above 0"},
      {R"({"sigma_min": "small"})", "sigma_min", R"(found the string "small")"},
      {R"({"churn": 1})", "churn", "takes a bool, found the int 1"},
      {R"({"cache": "2 XB"})", "cache", R"(takes a size from 4.00 KiB to 1.00 GiB, found the string "2 XB")"},
      {R"({"cache": "2 GiB"})", "cache", R"(found "2 GiB")"},
      {R"({"cache": 3})", "cache", "found 3"},
      {R"({"mode": "exakt"})", "mode",
       "takes a string among 'fast', 'exact', found the string \"exakt\", did you mean 'exact'?"},
      {R"({"mode": 3})", "mode", "found the int 3"},
      {R"({"sizes": 3})", "sizes",
       "takes a list of ints, each of at least 1, found the int 3; write it in [ ]"},
      {R"({"sizes": "[3, x]"})", "sizes", R"(found the string "[3, x]"; it is no TOML: a shell needs it in ' ')"},
      {R"({"parts": {"a": 1}})", "parts", "option 'parts' of sampler/x takes a list of tables, found a table"},
      {R"({"sizes": [3, 0]})", "sizes[1]", "option 'sizes[1]' of sampler/x takes"},
      {R"({"sizes": [3, "x"]})", "sizes[1]", R"(found the string "x")"},
      {R"({"scales": [0.5, 1]})", "scales[1]", "found 1"},
      {R"({"tags": ["a", 7]})", "tags[1]", "found the int 7"},
      {R"({"tags": {"a": 1}})", "tags", "found a table"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.given);
    std::vector<Problem> problems;
    Options::make(sampler(), json::parse(c.given), problems);
    if (!c.path) {
      EXPECT_TRUE(problems.empty()) << problems[0].message;
      continue;
    }
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_EQ(problems[0].path, c.path);
    EXPECT_THAT(problems[0].message, HasSubstr(c.says));
  }
}

TEST(Options, ReportsAllProblemsAtOnce) {
  const auto made =
      Options::make(sampler(), {{"stpes", 1}, {"steps", 0}, {"sizes", {0, 0}}, {"mode", "slow"}});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.failure().code, KINORA_ERROR_INVALID);
  EXPECT_EQ(std::count(made.failure().message.begin(), made.failure().message.end(), '\n'), 4);
}

TEST(Options, CompletesDefaultsInCanonicalJsonThatReadsBack) {
  const auto made = or_throw(Options::make(sampler(), {{"steps", 20}, {"sigma_min", 0.1}}));
  EXPECT_EQ(
      made.canonical(),
      R"({"at_most":1e+300,"cache":67108864,"churn":false,"files":[],"mode":"fast","parts":[],"scales":[],"shift":1.0,)"
      R"("sigma_max":"inf","sigma_min":0.1,"sizes":[1,2],"steps":20,"tags":["a"],"weights":""})");
  EXPECT_EQ(or_throw(Options::make(sampler(), made.values())).canonical(), made.canonical());
}

TEST(Options, DoublesKeepEveryBit) {
  const double awkward = std::nextafter(0.1, 1.0);
  const auto made = or_throw(Options::make(sampler(), {{"sigma_min", awkward}}));
  EXPECT_EQ(json::parse(made.canonical())["sigma_min"].get<double>(), awkward);
}

TEST(Options, PluginsReadThemByType) {
  const auto made = or_throw(Options::make(sampler(), {{"churn", true}, {"tags", {"x", "yz"}}}));
  const auto& api = options_table();
  int64_t i = 0;
  double d = 0;
  kinora_str s{};
  EXPECT_EQ(api.get_int(made.abi(), "steps", 0, &i), KINORA_OK);
  EXPECT_EQ(i, 35);
  EXPECT_EQ(api.get_int(made.abi(), "churn", 0, &i), KINORA_OK);
  EXPECT_EQ(i, 1);
  EXPECT_EQ(api.get_float(made.abi(), "sigma_max", 0, &d), KINORA_OK);
  EXPECT_TRUE(std::isinf(d));
  EXPECT_EQ(api.count(made.abi(), "tags", &i), KINORA_OK);
  EXPECT_EQ(i, 2);
  EXPECT_EQ(api.get_string(made.abi(), "tags", 1, &s), KINORA_OK);
  EXPECT_EQ(view(s), "yz");
  EXPECT_EQ(api.get_string(made.abi(), "tags", 2, &s), KINORA_ERROR_INVALID);
  EXPECT_EQ(api.get_float(made.abi(), "steps", 0, &d), KINORA_ERROR_INVALID);
  EXPECT_EQ(api.count(made.abi(), "nothing", &i), KINORA_ERROR_NOT_FOUND);
  EXPECT_THAT(from_abi(KINORA_ERROR_NOT_FOUND, "count").failure().message, HasSubstr("no option 'nothing'"));
}

// The SDK's description, through the manifest, back into the members.
TEST(Options, DescribedMembersComeBack) {
  struct Member {
    int64_t steps = 3;
    double rate = 0.25;
    bool on = true;
    std::string text = "a \"b\"\\\n\t\r\x7f\u00e9";
    std::vector<int64_t> list = {1, 2};
    std::vector<std::string> words;
  };
  Describe<Member> d;
  d.name("x").help("h");
  d.option("steps", &Member::steps).range(1, 9);
  d.option("rate", &Member::rate).above(0).below(1).unit("Hz");
  d.option("on", &Member::on);
  d.option("text", &Member::text);
  d.option("list", &Member::list).at_least(0);
  d.option("words", &Member::words);
  const auto spec = test::component(d.toml("stage"));
  const auto options = or_throw(Options::make(spec, {{"steps", 7}, {"words", {"p"}}}));
  const Member m = d.read(options.abi());
  EXPECT_EQ(m.steps, 7);
  EXPECT_EQ(m.rate, 0.25);
  EXPECT_TRUE(m.on);
  EXPECT_EQ(m.text, Member().text);
  EXPECT_EQ(m.list, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(m.words, std::vector<std::string>{"p"});
  EXPECT_EQ(spec.options[0].name, "steps");
  EXPECT_EQ(spec.options[5].name, "words");
}

// A draft is written down, so that a Kinora with another one refuses the component before it opens the
// library.
TEST(Options, ADraftIsPartOfTheDescription) {
  Describe<Nothing> d;
  d.name("x").help("h").formerly("y").needs("eager");
  EXPECT_EQ(d.toml("model", "kinora.model/1-draft.3"),
            "[[component]]\nid = \"model/x\"\nhelp = \"h\"\ninterface = \"kinora.model/1-draft.3\"\nformerly "
            "= [\"y\"]\nneeds = [\"eager\"]\n");
  EXPECT_EQ(d.toml("stage", "kinora.stage/1"), d.toml("stage"));
}

TEST(Options, ADescriptionSaysWhetherResultsDependOnTheSeed) {
  Describe<Nothing> still, draws;
  still.name("x").help("h");
  draws.name("x").help("h").draws();
  EXPECT_EQ(still.toml("stage"), "[[component]]\nid = \"stage/x\"\nhelp = \"h\"\n");
  EXPECT_EQ(draws.toml("stage"), still.toml("stage") + "draws = true\n");
  still.results(2);
  EXPECT_EQ(still.toml("stage"), "[[component]]\nid = \"stage/x\"\nhelp = \"h\"\nresults = 2\n");
}

std::string path_of(const json& given) {
  std::vector<Problem> problems;
  const auto made = Options::make(sampler(), {{"weights", given}}, problems, "/runs/base");
  return problems.empty() ? made.values()["weights"].get<std::string>() : problems[0].message;
}

// A list of paths may be given as one path; an empty path is an empty list.
TEST(Options, ListsOfPathsBecomeAbsolute) {
  const auto files_of = [](const json& given) {
    const auto made = or_throw(Options::make(sampler(), {{"files", given}}, "/runs/base"));
    EXPECT_EQ(or_throw(Options::make(sampler(), made.values(), "/elsewhere")).canonical(), made.canonical());
    EXPECT_EQ(json(made.paths()), made.values()["files"]);
    return made.values()["files"];
  };
  EXPECT_EQ(files_of({"a", "/b", "../c"}), json({"/runs/base/a", "/b", "/runs/c"}));
  EXPECT_EQ(files_of("a"), json({"/runs/base/a"}));
  EXPECT_EQ(files_of(""), json::array());
  std::vector<Problem> problems;
  Options::make(sampler(), {{"files", {"a", 3}}}, problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0].message,
              HasSubstr("option 'files[1]' of sampler/x takes a list of paths, found the int 3"));
}

TEST(Options, PathsBecomeAbsolute) {
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(path_of("a/b"), "/runs/base/a/b");
  EXPECT_EQ(path_of("../a"), "/runs/a");
  EXPECT_EQ(path_of("/x/y"), "/x/y");
  EXPECT_EQ(path_of("~/x"), "/home/me/x");
  EXPECT_EQ(path_of("s3://bucket/key"), "s3://bucket/key");
  EXPECT_EQ(path_of(""), "");
}

TEST(Options, AssetsAreFoundOrTheMessageSaysWhatToDo) {
  std::string folder = testing::TempDir() + "/kinora-assets-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::filesystem::create_directory(folder + "/minilm");
  std::ofstream(folder + "/minilm/vocab.txt") << "x";
  const char* before = std::getenv("KINORA_ASSETS");
  const std::string kept = before ? before : "";
  setenv("KINORA_ASSETS", ("/nowhere:" + folder).c_str(), 1);
  EXPECT_EQ(path_of("asset:minilm/vocab.txt"), folder + "/minilm/vocab.txt");
  EXPECT_THAT(path_of("asset:minilm/none"),
              HasSubstr("set KINORA_ASSETS to the folder that contains minilm/none"));
  EXPECT_THAT(path_of("asset:../etc/passwd"), HasSubstr("without '..'"));
  EXPECT_THAT(path_of("asset:/etc/passwd"), HasSubstr("a relative path"));
  before ? setenv("KINORA_ASSETS", kept.c_str(), 1) : unsetenv("KINORA_ASSETS");
  std::filesystem::remove_all(folder);
}

TEST(Options, RequiredOnesMustBeGiven) {
  const auto spec = test::component(R"(
[[component]]
id = "model/x"
option.weights = { type = "path", default = "asset:none/at-all", required = true, help = "safetensors" }
)");
  EXPECT_EQ(Options::make(spec, {}).failure().message,
            "option 'weights' of model/x is required: a path, safetensors");
  EXPECT_TRUE(Options::make(spec, {{"weights", "/a"}}));
}

}  // namespace
}  // namespace kinora::core
