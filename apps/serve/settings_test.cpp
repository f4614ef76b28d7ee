#include "apps/serve/settings.hpp"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::serve {
namespace settings_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class ServeSettings : public testing::Test {
 protected:
  ServeSettings() {
    std::string name = (fs::temp_directory_path() / "kinora-settings-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    fs::create_directories(folder_ / "wan");
    std::ofstream(folder_ / "token.txt") << "0123456789abcdef \r\nsecond line\n";
    std::ofstream(folder_ / "read.txt") << "fedcba9876543210\n";
    std::ofstream(folder_ / "short.txt") << "0123456789abcde\n";
  }
  ~ServeSettings() override { fs::remove_all(folder_); }

  fs::path file(const std::string& text) const {
    std::ofstream(folder_ / "serve.toml") << text;
    return folder_ / "serve.toml";
  }
  // The complaint behind the file's name.
  std::string refusal(const std::string& text) const {
    const std::string path = file(text).string();
    try {
      read_settings(path);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_INVALID);
      EXPECT_THAT(e.what(), StartsWith(path + ":"));
      return std::string(e.what()).substr(std::min(path.size() + 1, std::string(e.what()).size()));
    }
    return "no error";
  }
  fs::path folder_;
};

// The rest of a list of models, behind a LoRA's table.
std::string with_lora(const std::string& table) {
  return "[serve]\nmodels = [{ name = \"a\", pipeline = \"wan\", loras = [" + table + "] }]\n";
}

const std::string kModels = "models = [{ name = \"wan\", pipeline = \"wan\" }]\n";

TEST_F(ServeSettings, ReadsEveryKeyRelativeToItsFile) {
  const Settings s = read_settings(file(
      "[serve]\nhost = \"0.0.0.0\"\nport = 0\ntoken_file = \"token.txt\"\n"
      "read_token_file = \"read.txt\"\nfolder = \"../videos\"\nmax_queue = 3\nkeep = 60\nupload = "
      "1000\nseconds = 7\nmemory = \"1.5 KiB\"\ndrain = 9\nlease = 8\nsilence = 11\nlog_prompts = true\n"
      "[[serve.models]]\nname = \"a\"\npipeline = \"wan\"\njob = \"g\"\nranks = 2\nbatch = 4\n"
      "set = { steps = 30, cut = \"x\" }\n"
      "[[serve.models]]\nname = \"b\"\npipeline = \"" +
      (folder_ / "wan").string() + "\"\n"));
  EXPECT_EQ(s.host, "0.0.0.0");
  EXPECT_EQ(s.port, 0);
  EXPECT_EQ(s.token, "0123456789abcdef");
  EXPECT_EQ(s.read_token, "fedcba9876543210");
  EXPECT_EQ(s.folder, folder_.parent_path() / "videos");
  EXPECT_EQ(std::make_tuple(s.max_queue, s.keep, s.upload, s.seconds), std::make_tuple(3, 60, 1000, 7));
  EXPECT_EQ(s.memory, 1536);
  EXPECT_EQ(s.drain, 9);
  EXPECT_EQ(s.lease, 8);
  EXPECT_EQ(s.silence, 11);
  EXPECT_TRUE(s.log_prompts);
  ASSERT_EQ(s.models.size(), 2U);
  EXPECT_EQ(s.models[0].name, "a");
  EXPECT_EQ(s.models[0].pipeline, folder_ / "wan");
  EXPECT_EQ(s.models[0].job, "g");
  EXPECT_EQ(s.models[0].batch, 4);
  EXPECT_EQ(s.models[1].batch, 1);
  EXPECT_EQ(s.models[0].ranks, 2);
  EXPECT_EQ(s.models[1].ranks, 1);
  EXPECT_THAT(s.models[0].set, ElementsAre("cut=\"x\"", "steps=30"));
  EXPECT_EQ(s.models[1].name, "b");
  EXPECT_EQ(s.models[1].pipeline, folder_ / "wan");
  EXPECT_TRUE(s.models[1].set.empty());
}

TEST_F(ServeSettings, LorasAreAnOptionOfTheJob) {
  std::ofstream(folder_ / "toon.safetensors") << "x";
  const Settings s =
      read_settings(file(with_lora("{ name = \"toon\", file = \"toon.safetensors\", scale = 0.5 }, { name = "
                                   "\"b\", file = \"wan\", file_2 = "
                                   "\"toon.safetensors\" }")));
  ASSERT_EQ(s.models.at(0).set.size(), 1U);
  const std::string set = s.models[0].set[0];
  ASSERT_THAT(set, StartsWith("loras="));
  const auto texts = nlohmann::json::parse(set.substr(6));
  const std::string toon = (folder_ / "toon.safetensors").string(), wan = (folder_ / "wan").string();
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(texts[0].get<std::string>()),
            (nlohmann::json{{"name", "toon"}, {"file", toon}, {"scale", 0.5}}));
  EXPECT_EQ(nlohmann::json::parse(texts[1].get<std::string>()),
            (nlohmann::json{{"name", "b"}, {"file", wan}, {"file_2", toon}}));
}

TEST_F(ServeSettings, HasDefaults) {
  const Settings none{};
  const Settings s = read_settings(file("[serve]\n" + kModels));
  EXPECT_EQ(s.host, "127.0.0.1");
  EXPECT_EQ(s.port, 8000);
  EXPECT_EQ(s.token, "");
  EXPECT_EQ(s.read_token, "");
  EXPECT_EQ(s.folder, folder_ / "runs/serve");
  EXPECT_EQ(std::tie(s.max_queue, s.keep, s.upload, s.seconds),
            std::tie(none.max_queue, none.keep, none.upload, none.seconds));
  EXPECT_EQ(s.memory, 0);
  EXPECT_EQ(s.drain, 0);
  EXPECT_EQ(s.lease, 60);
}

TEST_F(ServeSettings, EveryWrongKeyOrValueHasItsPlace) {
  struct Case {
    std::string text, place, why;
  };
  const std::vector<Case> cases{
      {"[serve]\nprot = 1\n", "2:1: ", "unknown key 'prot', did you mean 'port'?"},
      {"[serve]\nport = \"80\"\n", "2:8: ", "port: expected a whole number from 0 to 65535"},
      {"[serve]\nport = 65536\n", "2:8: ", "port: expected a whole number"},
      {"[serve]\nport = -1\n", "2:8: ", "port: expected a whole number"},
      {"[serve]\nport = 80.0\n", "2:8: ", "port: expected a whole number"},
      {"[serve]\nport = true\n", "2:8: ", "port: expected a whole number"},
      {"[serve]\nhost = 1\n", "2:8: ", "host: expected a text"},
      {"[serve]\nhost = \"\"\n", "2:8: ", "host: expected a text"},
      {"[serve]\nmax_queue = 0\n", "2:13: ", "max_queue: expected a whole number from 1 to"},
      {"[serve]\nkeep = 0\n", "2:8: ", "keep: expected a whole number from 1 to"},
      {"[serve]\nupload = 0\n", "2:10: ", "upload: expected a whole number from 1 to"},
      {"[serve]\nseconds = 86401\n", "2:11: ", "seconds: expected a whole number from 1 to 86400"},
      {"[serve]\nmemory = \"much\"\n", "2:10: ", "memory: expected bytes, such as 4096 or \"12 GiB\""},
      {"[serve]\nmemory = 0\n", "2:10: ", "memory: expected bytes"},
      {"[serve]\nmemory = 1.5\n", "2:10: ", "memory: expected bytes"},
      {"[serve]\ndrain = -1\n", "2:9: ", "drain: expected a whole number from 0 to 86400"},
      {"[serve]\nfolder = []\n", "2:10: ", "folder: expected a text"},
      {"[serve]\nmodels = 3\n", "2:10: ", "models: expected a list"},
      {"[serve]\nmodels = []\n", "2:10: ", "models: expected a list"},
      {"[serve]\nmodels = [3]\n", "2:11: ", "expected a table"},
      {"[serve]\nmodels = [{ name = \"a\" }]\n", "2:11: ", "pipeline is missing"},
      {"[serve]\nmodels = [{ pipeline = \"wan\" }]\n", "2:11: ", "name is missing"},
      {"[serve]\nmodels = [{ name = 1, pipeline = \"wan\" }]\n", "2:20: ", "name: expected a text"},
      {"[serve]\nmodels = [{ name = \"a/b\", pipeline = \"wan\" }]\n",
       "2:20: ", "name: expected a name without '/'"},
      {"[serve]\nmodels = [{ name = \"..\", pipeline = \"wan\" }]\n",
       "2:20: ", "name: expected a name without '/'"},
      {"[serve]\nmodels = [{ name = \"a\", pipeline = \"none\" }]\n",
       "2:36: ", "there is no such folder or file"},
      {"[serve]\nmodels = [{ name = \"a\", pipelin = \"wan\" }]\n", "2:25: ", "did you mean 'pipeline'?"},
      {"[serve]\nmodels = [{ name = \"a\", pipeline = \"wan\", batch = 0 }]\n",
       "2:51: ", "batch: expected a whole number from 1 to 64"},
      {"[serve]\nmodels = [{ name = \"a\", pipeline = \"wan\", set = 3 }]\n",
       "2:49: ", "set: expected a table"},
      {"[serve]\nmodels = [{ name = \"a\", pipeline = \"wan\" }, { name = \"a\", pipeline = \"wan\" }]\n",
       "2:10: ", "two models are called 'a'"},
      {"[serve]\nmodels = [{ name = \"a\", pipeline = \"wan\", ranks = 0 }]\n",
       "2:51: ", "ranks: expected a whole number from 1 to 512"},
      {with_lora("3"), "2:", "expected a table"},
      {with_lora("{ file = \"wan\" }"), "2:", "name is missing"},
      {with_lora("{ name = \"a=1\", file = \"wan\" }"), "2:", "name: expected a name without '='"},
      {with_lora("{ name = \"b\" }"), "2:", "file is missing"},
      {with_lora("{ name = \"b\", file = \"none\" }"), "2:", "there is no such file"},
      {with_lora("{ name = \"b\", file = \"wan\", scale = \"1\" }"), "2:", "scale: expected a number"},
      {with_lora("{ name = \"b\", fiel = \"wan\" }"), "2:", "did you mean 'file'?"},
      {"[serve]\nmodels = [{ name = \"a\", pipeline = \"wan\", loras = 3 }]\n",
       "2:51: ", "loras: expected a list"}};
  for (const auto& one : cases) {
    const std::string why = refusal(one.text);
    EXPECT_THAT(why, StartsWith(one.place)) << one.text;
    EXPECT_THAT(why, HasSubstr(one.why)) << one.text;
  }
  EXPECT_THAT(refusal("[server]\n" + kModels), testing::MatchesRegex("1:[12]: unknown key 'server'.*"));
  EXPECT_THAT(refusal("[serve]\n"), HasSubstr("models: expected a list"));
  EXPECT_THAT(refusal(""), HasSubstr("the table [serve] is missing"));
  EXPECT_THAT(refusal("serve = 3\n"), HasSubstr("expected a table"));
  EXPECT_THAT(refusal("[serve]\nport 8000\n"), StartsWith("2:"));
}

TEST_F(ServeSettings, AFolderAndARunFileAreServedWithPipeline) {
  for (const fs::path& given : {folder_ / "wan", file("[[job]]\nkind = \"generate\"\n")}) try {
      read_settings(given);
      ADD_FAILURE() << given;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_INVALID);
      EXPECT_THAT(e.what(), HasSubstr("kinora serve --pipeline " + given.string()));
    }
}

TEST_F(ServeSettings, TokensAreLongEnough) {
  EXPECT_EQ(read_token(folder_ / "token.txt"), "0123456789abcdef");
  for (const char* name : {"short.txt", "none.txt"}) try {
      read_token(folder_ / name);
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(std::string(name) + ": expected a token of at least 16 letters"));
    }
}

}  // namespace settings_test
}  // namespace kinora::serve
