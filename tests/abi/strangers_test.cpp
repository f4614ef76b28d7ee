// Names in files from strangers: the comment of a generated video, and text.json of a run folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/kinora/video_comment.hpp"
#include "kinora/abi/cache.h"
#include "kinora/abi/engine.h"
#include "kinora/abi/model.h"
#include "kinora/abi/sampler.h"
#include "kinora/abi/stage.h"
#include "kinora/npy.hpp"
#include "plugins/jobs/curation/search/caption_encoder.hpp"
#include "plugins/jobs/curation/search/collection.hpp"
#include "tests/abi/plugins_folder.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/shipped_job.hpp"

namespace kinora::core::test {
namespace {

using kinora::test::refusal;
using testing::HasSubstr;

constexpr const char* kSteps =
    "option.steps = { type = \"int\", default = 9, min = 1, max = 100, help = \"steps\" }\n";
constexpr const char* kTokens =
    "output.input_ids = { shape = \"[L]\", dtype = \"int64\" }\noutput.attention_mask = { shape = \"[L]\", "
    "dtype = \"int64\" }\n";

constexpr const char* kWindow =
    "option.window = { type = \"int\", default = 0, min = 0, help = \"tokens\" }\n";

class Strangers : public testing::Test {
 protected:
  Strangers() {
    const auto add = [&](const std::string& name, const std::string& id, const std::string& options) {
      plugins_.add({.name = name, .id = id, .options = options}, "minimal");
    };
    add("a", "sampler/euler", kSteps);
    add("b", "engine/local", "");
    add("c", "tokenizer/cosmos", "");
    add("d", "storage/file", "");
    add("e", "stage/video.clips",
        "option.model = { type = \"path\", default = \"\", help = \"a program\" }\n");
    add("f", "stage/words",
        std::string(kTokens) + "option.vocab = { type = \"path\", default = \"\", help = \"words\" }\n");
    add("h", "cache/kv", fmt::format("interface = \"{}\"\n", KINORA_INTERFACE_CACHE) + kWindow);
    add("g", "model/text", fmt::format("interface = \"{}\"\n", KINORA_INTERFACE_MODEL));
    registry_.emplace(plugins_.scan());
    job_.kind = kinora::test::shipped_job("generate");
    job_.options =
        or_throw(Options::make(*job_.kind, {{"weights", "/own.safetensors"}, {"image", "/own.png"}}))
            .values();
    const auto* sampler = or_throw(registry_->find("sampler/euler"));
    job_.components.push_back({"sampler", sampler->id, or_throw(Options::make(*sampler, {})), "", {}});
    const auto* cache = or_throw(registry_->find("cache/kv"));
    job_.components.push_back({"cache", cache->id, or_throw(Options::make(*cache, {})), "", {}});
  }

  // A comment as Kinora writes it, with some members changed.
  static json comment(const json& change = json::object()) {
    json out = {{"job", "film"},
                {"options",
                 {{"prompts", {"a boat"}},
                  {"seed", 7},
                  {"guidance", 3.5},
                  {"image", "/own.png"},
                  {"prompts_file", ""}}},
                {"sampler", "sampler/euler"},
                {"sampler_options", {{"steps", 3}}},
                {"cache", "cache/kv"},
                {"cache_options", {{"window", 5}}},
                {"weights", {{"model", "sha256:00"}}},
                {"components", {{"model", {{"id", "model/text"}, {"version", "1"}}}}}};
    out.merge_patch(change);
    return out;
  }
  JobSpec taken(const json& about, const std::set<std::string>& given = {}) const {
    JobSpec job = job_;
    take_settings(*registry_, read_video_comment("x.mp4", about.dump()), given, job);
    return job;
  }

  PluginsFolder plugins_;
  std::optional<Registry> registry_;
  JobSpec job_;
};

TEST_F(Strangers, ATableIsGivenToItsOwnKindOnly) {
  PluginsFolder folder;
  folder.add({.name = "minimal"});
  auto registry = folder.scan();
  const Component component = or_throw(registry.open("stage/minimal"));
  EXPECT_EQ(component.table<kinora_stage>().struct_size, sizeof(kinora_stage));
  EXPECT_THAT(refusal([&] { component.table<kinora_sampler>(); }),
              HasSubstr("'stage/minimal' is of kind stage; kind sampler is required here"));
  EXPECT_THAT(refusal([&] { component.table<kinora_engine>(); }), HasSubstr("kind engine is required here"));
}

TEST_F(Strangers, SettingsOfTheSamplingAreTaken) {
  const JobSpec job = taken(comment());
  EXPECT_EQ(job.options.at("seed"), 7);
  EXPECT_EQ(job.options.at("guidance"), 3.5);
  EXPECT_EQ(job.options.at("prompts"), json::array({"a boat"}));
  EXPECT_EQ(job.options.at("image"), "/own.png");
  EXPECT_EQ(job.components.at(0).options.values().at("steps"), 3);
  EXPECT_EQ(job.components.at(1).options.values().at("window"), 5);
  EXPECT_EQ(job.made_with.at("weights").at("model"), "sha256:00");
  const JobSpec own = taken(comment(), {"guidance", "sampler", "cache"});
  EXPECT_EQ(own.options.at("guidance"), job_.options.at("guidance"));
  EXPECT_EQ(own.components.at(0).options.values().at("steps"), 9);
  EXPECT_EQ(own.components.at(1).options.values().at("window"), 0);
}

TEST_F(Strangers, TheRunsOwnFileMayBeToldByItsName) {
  EXPECT_EQ(taken(comment({{"options", {{"image", "own.png"}}}})).options.at("image"), "/own.png");
  EXPECT_THAT(refusal([&] {
                taken(comment({{"options", {{"image", "other.png"}}}}));
              }),
              HasSubstr("it was made with image \"other.png\", and a video's word for a file is not taken"));
}

TEST_F(Strangers, FilesDevicesAndWeightsAreNot) {
  const JobSpec job = taken(comment({{"options",
                                      {{"image", ""},
                                       {"tokenizer_weights", {"/evil.jit"}},
                                       {"weights", {"/evil.pt2"}},
                                       {"device", "cuda:7"},
                                       {"threads", 4000},
                                       {"format", {"png"}}}}}));
  EXPECT_EQ(job.options.at("image"), "") << "made without an image";
  for (const char* name : {"weights", "tokenizer_weights", "device", "threads", "format"})
    EXPECT_EQ(job.options.at(name), job_.options.at(name)) << name;
}

// If --from left out an option that affects the sampling, the result would silently be another video.
TEST_F(Strangers, EveryOptionIsTakenOrKnownNotToDecideWhatIsSampled) {
  const std::set<std::string> left{
      "pipeline",          "steps",        "preview_every",         "format", "weights", "weights_2",
      "tokenizer_weights", "text_weights", "image_encoder_weights", "device", "threads", "cuda_graphs",
      "prompts",           "count",        "resident_experts",      "stream", "loras"};
  for (const auto& option : job_.kind->options) {
    const json about{{"job", "film"}, {"options", {{option.name, option.default_value}}}};
    if (left.contains(option.name)) continue;
    const VideoComment read = read_video_comment("film.mp4", about.dump());
    EXPECT_TRUE(read.settings.contains(option.name) || read.files.contains(option.name)) << option.name;
  }
}

TEST_F(Strangers, CommentsThatKinoraDoesNotWriteAreRefused) {
  std::string deep = "{\"job\": \"film\", \"options\": ";
  for (int i = 0; i < 100000; ++i) deep += "{\"a\": ";
  const struct {
    json change;
    std::string says;
  } rows[] = {
      {{{"sampler", "engine/local"}}, "'engine/local' is of kind engine; kind sampler is required here"},
      {{{"sampler", "tokenizer/cosmos"}}, "kind sampler is required here"},
      {{{"sampler", "storage/file"}}, "kind sampler is required here"},
      {{{"sampler", "stage/video.clips"}}, "kind sampler is required here"},
      {{{"sampler", "sampler/\x1b[2J"}}, "\"sampler\" must be a short text"},
      {{{"sampler", 3}}, "\"sampler\" must be a short text"},
      {{{"sampler_options", nullptr}}, "belong together"},
      {{{"sampler_options", 3}}, "\"sampler_options\" must be an object"},
      {{{"sampler_options", {{"steps", "ten"}}}}, "option 'steps' of sampler/euler takes an int"},
      {{{"sampler_options", {{"steps", 1e9}}}}, "option 'steps' of sampler/euler takes an int"},
      {{{"cache", "sampler/euler"}}, "kind cache is required here"},
      {{{"cache_options", {{"window", -1}}}}, "option 'window' of cache/kv takes an int"},
      {{{"job", 3}}, "\"job\" must be a short text"},
      {{{"options", 3}}, "\"options\" must be an object"},
      {{{"options", {{"seed", "x"}}}}, "option 'seed' of job/generate takes an int"},
      {{{"options", {{"prompts", 3}}}}, "\"prompts\" must be a list of one text"},
      {{{"options", {{"prompts", {"a", "b"}}}}}, "\"prompts\" must be a list of one text"},
      {{{"options", {{"prompts_file", "/etc/passwd"}}}}, "made with prompts_file \"/etc/passwd\""},
      {{{"options", {{"image", "/etc/passwd"}}}}, "made with image \"/etc/passwd\""},
      {{{"options", {{"video", 3}}}}, "\"video\" must be a path"},
      {{{"weights", 3}}, "\"weights\" must be an object"},
      {{{"components", {{"model", {{"id", 3}}}}}}, "\"components\" must hold objects"},
  };
  for (const auto& row : rows) {
    const std::string said = refusal([&] { taken(comment(row.change)); });
    EXPECT_THAT(said, HasSubstr(row.says)) << row.change;
    EXPECT_THAT(said, testing::StartsWith("x.mp4: "));
  }
  for (const std::string& text : {std::string(), std::string("null"), std::string("[]"), deep})
    EXPECT_THAT(refusal([&] { read_video_comment("x.mp4", text); }),
                HasSubstr("does not say how it was made"));
}

TEST_F(Strangers, AFileThatTheUserGivesReplacesTheVideos) {
  EXPECT_EQ(taken(comment({{"options", {{"image", "/etc/passwd"}}}}), {"image"}).options.at("image"),
            "/own.png");
}

class StrangersText : public Strangers {
 protected:
  static json encoder(const json& change = json::object()) {
    json out = {{"words", "stage/words"},
                {"words_options", json::object()},
                {"text", "model/text"},
                {"text_options", json::object()},
                {"weights", {"/w/model.safetensors"}},
                {"max_tokens", 32},
                {"device", "cpu"}};
    out.merge_patch(change);
    return out;
  }
  std::string said(const json& change) const {
    return refusal([&] { require_safe(*registry_, read_caption_encoder(*registry_, encoder(change))); });
  }
};

TEST_F(StrangersText, AnEncoderIsAStageThatMakesTokensAModelAndSafetensors) {
  EXPECT_EQ(said(json::object()), "nothing was refused");
  EXPECT_EQ(said({{"weights", {"/w/model.safetensors.index.json"}}}), "nothing was refused");
  const struct {
    json change;
    std::string says;
  } rows[] = {
      {{{"words", "engine/local"}}, "kind stage is required here"},
      {{{"words", "stage/video.clips"}, {"words_options", {{"model", "/evil.pt2"}}}},
       "names no output input_ids"},
      {{{"words", 3}}, "cannot be used"},
      {{{"words_options", {{"steps", 3}}}}, "unknown option 'steps'"},
      {{{"words_options", {{"vocab", "s3://evil/vocab.txt"}}}}, "reads files of this machine only"},
      {{{"words_options", {{"vocab", "/no/such/vocab.txt"}}}}, "reads files of this machine only"},
      {{{"text", "sampler/euler"}}, "kind model is required here"},
      {{{"text", nullptr}}, "cannot be used"},
      {{{"weights", {"/w/encoder.jit"}}}, "reads safetensors of this machine only"},
      {{{"weights", {"/w/model.pt2"}}}, "reads safetensors of this machine only"},
      {{{"weights", {"s3://w/model.safetensors"}}}, "reads safetensors of this machine only"},
      {{{"weights", {3}}}, "not a path"},
      {{{"weights", json::array()}}, "names no weights"},
      {{{"max_tokens", "x"}}, "lacks max_tokens"},
      {{{"max_tokens", 1e300}}, "lacks max_tokens"},
      {{{"device", 3}}, "a device"},
  };
  for (const auto& row : rows) EXPECT_THAT(said(row.change), HasSubstr(row.says)) << row.change;
}

TEST_F(StrangersText, KeysAndClipsStayInTheRun) {
  const fs::path run = plugins_.path() / "run", captions = run / "captions";
  fs::create_directories(captions);
  const auto said = [&](const json& change) {
    json about = {{"clips", "../clips/data"}, {"keys", {"a/b", "c"}}, {"encoder", json::object()}};
    about.merge_patch(change);
    std::ofstream(captions / "text.json") << about.dump();
    return refusal([&] { EXPECT_EQ(Collection({captions}).captions().clips.size(), 2U); });
  };
  std::ofstream(captions / "text.npy") << to_npy(std::vector<float>{1, 0, 0, 1}, {2, 2});
  EXPECT_EQ(said(json::object()), "nothing was refused");
  for (const json& change :
       {json{{"keys", {"../x", "c"}}}, json{{"keys", {"/etc/x", "c"}}}, json{{"keys", {"a/../../x", "c"}}},
        json{{"keys", {3, "c"}}}, json{{"keys", {"a"}}}, json{{"keys", "ab"}}, json{{"clips", "/etc"}},
        json{{"clips", "../../clips/data"}}, json{{"clips", "../../data"}}, json{{"clips", 3}},
        json{{"encoder", nullptr}}})
    EXPECT_THAT(said(change), HasSubstr("text.json was not written by an embed-text job")) << change;
}

}  // namespace
}  // namespace kinora::core::test
