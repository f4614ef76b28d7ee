#include "core/plugin/manifest.hpp"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/kinds.hpp"
#include "core/plugin/tensor_rules.hpp"
#include "kinora/abi/model.h"

namespace kinora::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Without `manifest`, which then is 1.
constexpr const char* good = R"([plugin]
name = "samplers-edm"
version = "0.1.0"
abi = "1.0"
tier = "pinned"
torch = "==2.11.0"
cxx_abi = "1"
cuda = "13.0"

[[component]]
id = "sampler/edm-heun"
help = "order 2"
input.noise = { shape = "[N, D]", dtype = "float64", help = "unit variance" }
input.mask = { shape = "[N]", dtype = "bool", optional = true, when = "steps" }
output.samples = { shape = "[N, D]", dtype = "float64" }
output.again = { shape = "[N]", dtype = "int64" }
output.parts = { shape = "[K]", dtype = "int64", per = "clip", when = "mode == b" }
option.steps = { type = "int", default = 35, min = 1, max = 1000, unit = "steps", help = "intervals" }
option.rho = { type = "float", default = 7, above = 0, below = 10.5, bound = true }
option.cache = { type = "size", default = "2 MiB" }
option.mode = { type = "string", default = "a", choices = ["a", "b"] }
option.weights = { type = "path", default = "", required = true }
score."glow.p10" = { title = "Glow of the darkest tenth", unit = "cd" }
score.glow = { title = "Glow" }

[[component]]
id = "sampler/edm-euler"
help = "order 1"
)";

TEST(Manifest, KeepsEveryFieldAndTheFilesOrder) {
  const auto p = parse_manifest(good, "plugin.toml");
  ASSERT_TRUE(p) << p.failure().message;
  EXPECT_EQ(p->name, "samplers-edm");
  EXPECT_EQ(p->tier, Tier::pinned);
  EXPECT_EQ(p->torch, "2.11.0");
  EXPECT_EQ(p->cuda, "13.0");
  ASSERT_EQ(p->components.size(), 2u);
  const auto& c = *p->component("sampler/edm-heun");
  EXPECT_EQ(c.kind, "sampler");
  EXPECT_EQ(c.name, "edm-heun");
  EXPECT_EQ(c.inputs[0].help, "unit variance");
  EXPECT_THAT((std::vector{c.outputs[0].name, c.outputs[1].name, c.outputs[2].name}),
              ElementsAre("samples", "again", "parts"));
  EXPECT_THAT(c.inputs[0].shapes(), ElementsAre(ElementsAre("N", "D")));
  EXPECT_EQ(c.inputs[1].when, "steps");
  EXPECT_EQ(c.outputs[2].per, "clip");
  EXPECT_EQ(c.outputs[2].when_value, "b");
  EXPECT_THAT((std::vector{c.inputs[0].is_optional, c.inputs[1].is_optional}), ElementsAre(false, true));
  EXPECT_THAT((std::vector{c.option("rho")->is_bound, c.option("steps")->is_bound}),
              ElementsAre(true, false));
  ASSERT_EQ(c.scores.size(), 2u);
  EXPECT_THAT((std::vector{c.scores[0].name, c.scores[0].title, c.scores[0].unit, c.scores[1].unit}),
              ElementsAre("glow.p10", "Glow of the darkest tenth", "cd", ""));
  std::vector<std::string> names;
  for (const auto& o : c.options) names.push_back(o.name);
  EXPECT_THAT(names, ElementsAre("steps", "rho", "cache", "mode", "weights"));
  EXPECT_EQ(c.option("rho")->default_value, json(7.0));
  EXPECT_EQ(c.option("rho")->below, 10.5);
  EXPECT_EQ(c.option("cache")->default_value, json(2097152));
  EXPECT_TRUE(c.option("weights")->required);
  EXPECT_EQ(c.option("nothing"), nullptr);
}

TEST(Manifest, AShapeIsReadAsItsAlternatives) {
  TensorSpec tensor;
  EXPECT_TRUE(tensor.shapes().empty());
  tensor.shape = "[B] or [B, F * h * w]";
  EXPECT_THAT(tensor.shapes(), ElementsAre(ElementsAre("B"), ElementsAre("B", "F * h * w")));
}

TEST(Manifest, AShapeIsListsOfAxes) {
  for (const char* shape : {"", "[]", "[ ]", "[B]", "[T, H, W, 3]", "[B, ...]", "[B or 1, 1, any, any]",
                            "[1] or [B]", "[B, channels] or [B, F, channels] or [B, F * h * w, channels]",
                            "[B, 1 + (image_size / patch_size)^2, hidden_size]"})
    EXPECT_TRUE(is_tensor_shape(shape)) << shape;
  const std::string deep = "[" + std::string(100000, '(') + "1" + std::string(100000, ')') + "]";
  for (const std::string& shape :
       {std::string("[T, H W"), std::string("[T, H W]"), std::string("banana"),       std::string("[B"),
        std::string("B]"),      std::string("[B,]"),     std::string("[,B]"),         std::string("[B, ..]"),
        std::string("[B] [T]"), std::string("[B] or"),   std::string("[B] oder [T]"), std::string("[B] or 3"),
        std::string("[2d]"),    std::string("[B or]"),   std::string("[F *]"),        std::string("[(B]"),
        std::string("[B]x"),    std::string(" "),        std::string("[-1]"),         deep})
    EXPECT_FALSE(is_tensor_shape(shape)) << shape.substr(0, 50);
}

TEST(Manifest, ATensorIsInUseWhileItsOptionHasTheValue) {
  TensorSpec tensor;
  EXPECT_TRUE(tensor.is_in_use(json::object()));
  tensor.when = "fps";
  for (const auto& [value, is_in_use] : std::vector<std::pair<json, bool>>{
           {0, false}, {0.0, false}, {0.5, true}, {false, false}, {true, true}, {"", false}, {"x", true}})
    EXPECT_EQ(tensor.is_in_use({{"fps", value}}), is_in_use) << value;
  EXPECT_FALSE(tensor.is_in_use(json::object()));
  tensor.when_value = "x";
  EXPECT_TRUE(tensor.is_in_use({{"fps", "x"}}));
  EXPECT_FALSE(tensor.is_in_use({{"fps", "y"}}));
}

// One change of the valid manifest, and the error that it must give.
struct Case {
  const char *replace, *by, *says;
};

const Case cases[] = {
    {"name = \"samplers-edm\"", "name = \"../evil\"",
     "plugin.toml:2:8: '../evil' is not a valid plugin name"},
    {"name = \"samplers-edm\"", "name = 3", "plugin.toml:2:8: 'name' of [plugin] must be a string"},
    {"name = \"samplers-edm\"\n", "", "plugin.toml:1:1: [plugin] has no 'name'"},
    {"version =", "versoin =", "plugin.toml:3:1: unknown key 'versoin' in [plugin], did you mean 'version'?"},
    {"abi = \"1.0\"", "abi = \"one\"", "plugin.toml:4:7: abi 'one' must be \"MAJOR.MINOR\""},
    {"tier = \"pinned\"", "tier = \"loose\"", "plugin.toml:5:8: unknown tier 'loose'; tiers: stable, pinned"},
    {"tier = \"pinned\"", "tier = \"stable\"",
     "plugin.toml:5:8: torch, cxx_abi and cuda belong to tier \"pinned\""},
    {"\"==2.11.0\"", "\">=2.11\"", "plugin.toml:6:9: torch '>=2.11' must be one exact version"},
    {"cxx_abi = \"1\"\n", "", "[plugin] has no 'cxx_abi'"},
    {"sampler/edm-heun", "edm-heun", "'edm-heun' is not a valid component id; write KIND/NAME"},
    {"sampler/edm-heun", "sampler/edm-euler",
     "plugin.toml:26:1: component 'sampler/edm-euler' is listed twice"},
    {"shape = \"[N]\", dtype = \"int64\"", "shape = \"[N]\"",
     "output 'again' of sampler/edm-heun has no 'dtype'"},
    {"default = 35", "default = 0",
     "plugin.toml:18:42: default: option 'steps' of sampler/edm-heun takes an int from 1 to 1000 (steps), "
     "found 0"},
    {"default = 35", "default = 1979-05-27", "plugin.toml:18:42: a default is a number"},
    {"default = 35, ", "", "option 'steps' of sampler/edm-heun has no 'default'"},
    {"min = 1", "min = \"1\"", "plugin.toml:18:52: 'min' must be a number"},
    {"required = true", "required = 1",
     "'required' of option 'weights' of sampler/edm-heun must be true or false"},
    {"choices = [\"a\", \"b\"]", "choices = [\"a\", 2]",
     "'choices' of option 'mode' of sampler/edm-heun must be a list of strings"},
    {"when = \"steps\"", "when = \"stepz\"",
     "plugin.toml:14:71: 'when' of tensor 'mask' of sampler/edm-heun: unknown option 'stepz', did you mean "
     "'steps'?"},
    {"mode == b", "mode == c", "'c' is not among the choices of option 'mode'"},
    {"optional = true", "optional = 1",
     "'optional' of input 'mask' of sampler/edm-heun must be true or false"},
    {"bound = true", "bound = \"yes\"", "'bound' of option 'rho' of sampler/edm-heun must be true or false"},
    {"title = \"Glow\"", "name = \"Glow\"", "score 'glow' of sampler/edm-heun has no 'title'"},
    {"help = \"order 2\"", "help = \"order 2", "plugin.toml:12:"},
    {"[[component]]\nid = \"sampler/edm-heun\"", "[component]\nid = \"sampler/edm-heun\"", "plugin.toml:26:"},
    {"option.rho = {", "option.Rho = {", "plugin.toml:19:8: 'Rho' is not a valid option name"},
    {"option.rho = {", "option.use = {",
     "plugin.toml:19:8: option 'use' of sampler/edm-heun: run files reserve this word; give the option "
     "another"},
    {"[plugin]\n", "[plugin]\nmanifest = 2\n",
     "plugin.toml:2:12: 'manifest' of [plugin] must be 1, the only format that this Kinora reads; another "
     "one needs "
     "a newer Kinora"},
    {"[plugin]\n", "[plugin]\nmanifest = \"1\"\n", "plugin.toml:2:12: 'manifest' of [plugin] must be 1"},
};

// The valid manifest with one change.
Result<PluginSpec> changed(const char* replace, const char* by) {
  std::string text = good;
  const auto at = text.find(replace);
  EXPECT_NE(at, text.npos) << replace;
  if (at != text.npos) text.replace(at, std::string_view(replace).size(), by);
  return parse_manifest(text, "plugin.toml");
}

TEST(Manifest, ErrorsHaveTheirPlace) {
  for (const auto& c : cases) {
    const auto p = changed(c.replace, c.by);
    ASSERT_FALSE(p) << c.replace << " -> " << c.by;
    EXPECT_THAT(p.failure().message, HasSubstr(c.says));
  }
}

TEST(Manifest, AnOptionOfAJobLeavesTheWordsOfARunFileAlone) {
  const auto job = [](const std::string& option) {
    return parse_manifest(
        "[plugin]\nname = \"x\"\nversion = \"0.1.0\"\nabi = \"1.0\"\ntier = \"host\"\n"
        "kinora = \"==1.0.0\"\n[[component]]\nid = \"job/x\"\noption." +
            option + " = { type = \"string\", default = \"\" }\n",
        "p");
  };
  EXPECT_TRUE(job("title"));
  for (const char* word : {"name", "kind", "input", "use"}) {
    const auto p = job(word);
    ASSERT_FALSE(p) << word;
    EXPECT_THAT(p.failure().message,
                HasSubstr(std::string("option '") + word + "' of job/x: run files reserve"));
  }
}

// A job with a slot for a kind that only a newer Kinora has; the plugin's other job is used.
TEST(Manifest, AJobWhoseSlotIsOfAnUnknownKindIsUnusableAlone) {
  const auto p = parse_manifest(
      "[plugin]\nname = \"x\"\nversion = \"0.1.0\"\nabi = \"1.0\"\ntier = \"host\"\n"
      "kinora = \"==1.0.0\"\n[[component]]\nid = \"job/x\"\n"
      "slot.judge = { kind = \"reward\", default = \"taste\", help = \"h\" }\n"
      "[[component]]\nid = \"job/y\"\nslot.sampler = { kind = \"sampler\", help = \"h\" }\n",
      "p");
  ASSERT_TRUE(p) << p.failure().message;
  EXPECT_THAT(p->warnings, testing::IsEmpty());
  EXPECT_EQ(p->components[0].unusable,
            "p:9:23: unknown kind 'reward' of slot 'judge' of job/x (a newer Kinora may know it)");
  EXPECT_EQ(p->components[1].unusable, "");
}

TEST(Manifest, NothingElseIsReadOfAnotherFormat) {
  const auto p = parse_manifest("component = 3\n[plugin]\nmanifest = 2\nname = 5\n", "p");
  ASSERT_FALSE(p);
  EXPECT_EQ(p.failure().message.find('\n'), std::string::npos) << p.failure().message;
  EXPECT_TRUE(changed("[plugin]\n", "[plugin]\nmanifest = 1\n"));
}

// Attributes can be added to the format: an older Kinora leaves them out.
TEST(Manifest, AnUnknownKeyIsAWarning) {
  const Case unknown[] = {
      {"max = 1000", "mxa = 1000",
       "plugin.toml:18:55: unknown key 'mxa' in option 'steps' of sampler/edm-heun"},
      {"cuda = \"13.0\"", "cudb = \"13.0\"",
       "plugin.toml:8:1: unknown key 'cudb' in [plugin], did you mean 'cuda'?"},
      {"help = \"order 1\"", "colour = 3",
       "plugin.toml:28:1: unknown key 'colour' in [[component]]; keys: id, help"},
  };
  for (const auto& c : unknown) {
    const auto p = changed(c.replace, c.by);
    ASSERT_TRUE(p) << p.failure().message;
    ASSERT_EQ(p->warnings.size(), 1U);
    EXPECT_THAT(p->warnings[0], HasSubstr(c.says));
    EXPECT_TRUE(p->components[0].unusable.empty());
  }
}

// Kinds and types can be added to the format too: a component that has one serves newer hosts, the others
// this one.
TEST(Manifest, AComponentThatIsUnknownIsUnusableAlone) {
  const Case unknown[] = {
      {"sampler/edm-heun", "samplr/edm-heun",
       "plugin.toml:11:6: unknown kind 'samplr' of component 'samplr/edm-heun' (a newer Kinora may know it), "
       "did you "
       "mean 'sampler'?"},
      {"id = \"sampler/edm-heun\"\n", "id = \"reward/taste\"\nlayout = 3\nstate = []\n",
       "unknown kind 'reward'"},
      {"type = \"int\", default = 35", "type = \"angle\", default = { degrees = 35 }, turns = 2",
       "plugin.toml:18:25: unknown type 'angle' of option 'steps' of sampler/edm-heun (a newer Kinora may "
       "know it)"},
      {"dtype = \"bool\"", "dtype = \"banana\"",
       "plugin.toml:14:39: unknown dtype 'banana' of input 'mask' of sampler/edm-heun (a newer Kinora may "
       "know it); dtypes: float, float16, bfloat16, float32, float64, int, uint8, int8, int16, int32, int64, "
       "bool, none"},
      {"shape = \"[K]\"", "shape = \"[T, H W\"",
       "plugin.toml:17:26: shape '[T, H W' of output 'parts' of sampler/edm-heun: write \"[B, C, 3]\""},
      {"per = \"clip\"", "per = \"shot\"",
       "'per' of output 'parts' of sampler/edm-heun is \"shot\" (a newer Kinora may know it); this one knows "
       "\"clip\""},
      {"help = \"order 2\"", "needs = [\"eager\", \"two-hosts\"]\nlayout = 3",
       "plugin.toml:12:9: sampler/edm-heun needs 'two-hosts', which this Kinora does not know; use a newer "
       "one"},
      {"help = \"order 2\"", "interface = \"kinora.sampler/2\"",
       "sampler/edm-heun is built for kinora.sampler/2, this Kinora has kinora.sampler/1; build the plugin "
       "again with "
       "this Kinora's SDK"},
  };
  for (const auto& c : unknown) {
    const auto p = changed(c.replace, c.by);
    ASSERT_TRUE(p) << c.by << ": " << p.failure().message;
    EXPECT_THAT(p->warnings, testing::IsEmpty()) << c.by;
    EXPECT_THAT(p->components[0].unusable, HasSubstr(c.says));
    EXPECT_EQ(p->components[1].unusable, "");
  }
}

TEST(Manifest, ADraftThatBecameStableKeepsItsPlugins) {
  const Kind kind{"x", "kinora.x/1", 16, "create", "reserved", 0, "kinora.x/1-draft.3 kinora.x/1-draft.4"};
  for (const char* id : {"kinora.x/1", "kinora.x/1-draft.3", "kinora.x/1-draft.4"})
    EXPECT_TRUE(kind.accepts(id)) << id;
  for (const char* id : {"", "kinora.x/1-draft.2", "kinora.x/2", "kinora.x/1-draft.3 kinora.x/1-draft.4"})
    EXPECT_FALSE(kind.accepts(id)) << id;
}

TEST(Manifest, ADraftIsNamedAndMustBeThisKinoras) {
  const auto unusable = [](const std::string& line) {
    const auto p = parse_manifest(
        "[plugin]\nname = \"x\"\nversion = \"0\"\nabi = \"1.0\"\ntier = \"stable\"\n"
        "[[component]]\nid = \"model/x\"\nhelp = \"h\"\n" +
            line,
        "p");
    return or_throw(p).components.at(0).unusable;
  };
  EXPECT_EQ(unusable("interface = \"" KINORA_INTERFACE_MODEL "\"\n"), "");
  EXPECT_EQ(unusable("interface = \"kinora.model/1-draft.0\"\n"),
            "model/x is built for kinora.model/1-draft.0, this Kinora has " KINORA_INTERFACE_MODEL
            "; build the plugin again with this Kinora's SDK");
  EXPECT_THAT(unusable(""),
              HasSubstr("model/x does not name the draft that it is built for, this Kinora has "));
}

// A job may read the seed without a word, so it draws unless it denies it; a stage draws only if it says so.
TEST(Manifest, AJobDrawsUnlessItDeniesItAndAStageIfItSaysSo) {
  const auto draws = [](const std::string& id, const std::string& line) {
    const std::string tier =
        id.starts_with("job/") ? "tier = \"host\"\nkinora = \"==0.1.0\"\n" : "tier = \"stable\"\n";
    const auto p = parse_manifest("[plugin]\nname = \"x\"\nversion = \"0\"\nabi = \"1.0\"\n" + tier +
                                      "[[component]]\nid = \"" + id + "\"\nhelp = \"h\"\n" + line,
                                  "p");
    return or_throw(p).components.at(0).draws;
  };
  EXPECT_TRUE(draws("job/x", ""));
  EXPECT_FALSE(draws("job/x", "draws = false\n"));
  EXPECT_FALSE(draws("stage/x", ""));
  EXPECT_TRUE(draws("stage/x", "draws = true\n"));
}

// The number that counts for the identity of jobs, instead of the plugin's version.
TEST(Manifest, AComponentStatesItsResults) {
  const auto read = [](const std::string& line) {
    return parse_manifest(
        "[plugin]\nname = \"x\"\nversion = \"0\"\nabi = \"1.0\"\ntier = \"stable\"\n"
        "[[component]]\nid = \"stage/x\"\nhelp = \"h\"\n" +
            line,
        "p");
  };
  EXPECT_EQ(or_throw(read("")).components.at(0).results, 1);
  EXPECT_EQ(or_throw(read("results = 3\n")).components.at(0).results, 3);
  for (const char* line : {"results = 0\n", "results = \"2\"\n", "results = 1.5\n"}) {
    ASSERT_FALSE(read(line)) << line;
    EXPECT_THAT(read(line).failure().message,
                HasSubstr("p:9:11: 'results' must be an integer of at least 1"));
  }
}

TEST(Manifest, ReportsAllErrorsInTheFilesOrder) {
  const auto p =
      parse_manifest("[plugin]\nname = 1\nversion = 2\n[[component]]\nid = \"stage/x\"\ncolour = 3\n", "p");
  ASSERT_FALSE(p);
  EXPECT_EQ(
      p.failure().message,
      "p:1:1: [plugin] has no 'abi'\np:1:1: [plugin] has no 'tier'\np:2:8: 'name' of [plugin] must be "
      "a string\n"
      "p:3:11: 'version' of [plugin] must be a string\n"
      "p:6:1: unknown key 'colour' in [[component]]; keys: id, help, interface, needs, formerly, draws, "
      "results, input, output, score, layout, option");
}

TEST(Manifest, EmptyTextIsNoManifest) {
  EXPECT_EQ(parse_manifest("", "p").failure().message,
            "p:1:1: the manifest has no 'plugin'\np:1:1: the manifest has no 'component'");
}

// Hostile text: an error or a manifest, never a crash, and every error has a position.
TEST(Manifest, DamagedTextIsAnErrorOrAManifest) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (uint64_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
        default:
          text.insert(at, std::string(random() % 50, "[{\"'="[random() % 5]));
          break;
      }
    }
    const auto p = parse_manifest(text, "p");
    if (p) continue;
    EXPECT_TRUE(p.failure().message.starts_with("p:")) << p.failure().message;
  }
}

}  // namespace
}  // namespace kinora::core
