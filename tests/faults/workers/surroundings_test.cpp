// The environment, children and output of a stage's process.
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/faults/workers/job.hpp"

namespace kinora::core {
namespace {

// True if the process is gone, or dead but not reaped by its parent.
bool is_gone(const std::string& pid) {
  std::ifstream in("/proc/" + pid + "/stat");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto at = text.rfind(')');
  return text.empty() || (at != std::string::npos && text.substr(at + 2, 1) == "Z");
}

TEST(Workers, WhatAStageHasStartedEndsWithItsProcess) {
  const std::map<std::string, std::string> reasons{
      {"crash", "killed by signal 11 (SIGSEGV) in fault"},
      {"exit", "its process ended by itself with code 3 in fault"},
      {"hang", "killed after 4 s without a sign of life (item_timeout) in fault"},
      {"error", "bad bytes"},
      {"none", "kept"}};
  for (const auto& [how, reason] : reasons) {
    const Scratch ids("kinora-started-");
    Job job;
    job.stage = {{"how", how}, {"starts", ids.name()}};
    job.engine = {{"item_retries", 0}, {"item_timeout", 4}};
    const Ran ran = job.run();
    EXPECT_EQ(ran.ends.at("c"), "kept");
    EXPECT_EQ(ran.ends.at("bad"), reason) << "must not wait for a process that holds a dead one's socket";
    std::istringstream words(ids.text());
    int n = 0;
    for (std::string pid; words >> pid; ++n) {
      for (int i = 0; i < 500 && !is_gone(pid); ++i) ::usleep(10000);
      EXPECT_TRUE(is_gone(pid)) << how << ": process " << pid << " is left";
    }
    EXPECT_EQ(n, 2) << how;
  }
}

TEST(Workers, WhatAStageSaidLastIsInTheLog) {
  Ran ran;
  const std::string text = logged([&] {
    Job job;
    job.stage = {{"how", "crash"}, {"says", 100}};
    job.engine = {{"item_retries", 0}};
    ran = job.run();
  });
  EXPECT_EQ(ran.ends.at("bad"), "killed by signal 11 (SIGSEGV) in fault");
  EXPECT_EQ(times(text, "faulty is about to fail"), 1) << text;
  EXPECT_EQ(times(text, "fault: its process wrote: line "), 40) << text;
  EXPECT_EQ(times(text, "fault: its process wrote: line 99 of stderr"), 1) << text;
  EXPECT_EQ(times(text, "fault: its process wrote 60 lines before these"), 1) << text;
}

TEST(Workers, WhatAStagePrintedIsInTheLogWhenItsProcessDies) {
  Ran ran;
  const std::string text = logged([&] {
    Job job;
    job.stage = {{"how", "crash"}, {"prints", 3}, {"says", 1}};
    job.engine = {{"item_retries", 0}};
    ran = job.run();
  });
  for (const char* line :
       {"line 0 of stdout \xEF\xBF\xBD", "line 2 of stdout \xEF\xBF\xBD", "line 0 of stderr"})
    EXPECT_EQ(times(text, std::string("fault: its process wrote: ") + line), 1) << text;
  EXPECT_EQ(text.find('\xff'), std::string::npos);
}

TEST(Workers, ALastLineWithoutItsEndIsHeardWhenTheProcessIsStopped) {
  const std::string text = logged([&] {
    Job job;
    job.keys = {"a"};
    job.stage = {{"how", "none"}, {"mutters", "half a line"}};
    EXPECT_EQ(job.run().ends.at("a"), "kept");
  });
  EXPECT_EQ(times(text, "fault: its process wrote: half a line"), 1) << text;
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Workers, InheritNoSecretsThatTheyHaveNoUseFor) {
  const Variable token("FAULTY_TOKEN", "hush1"), key("OPENAI_API_KEY", "hush2"),
      access("AWS_SECRET_ACCESS_KEY", "hush3"), proxy("https_proxy", "http://me:hush4@proxy"),
      mine("KINORA_SIGNING_KEY", "hush5"), setting("KINORA_FAULTY_SETTING", "heard1"),
      asked("FAULTY_KEY", "heard2");
  Job job;
  job.keys = {"a"};
  job.stage = {{"how", "none"}, {"key_env", "FAULTY_KEY"}};
  const Ran ran = job.run();
  ASSERT_EQ(ran.environments.size(), 1u);
  const std::string& seen = *ran.environments.begin();
  for (const char* wanted : {"PATH=", "KINORA_FAULTY_SETTING=heard1", "FAULTY_KEY=heard2"})
    EXPECT_NE(seen.find(wanted), std::string::npos) << wanted;
  EXPECT_EQ(seen.find("hush"), std::string::npos) << seen.substr(seen.find("hush"), 5);
  // Variables that may be lent later are set already, so setenv() moves no memory that another thread reads.
  for (const std::string name : {"AWS_SECRET_ACCESS_KEY=", "https_proxy="})
    EXPECT_NE(seen.find(name + '\0'), std::string::npos) << name;
  EXPECT_EQ(ran.rights, std::set<std::string>{"NoNewPrivs:\t1"});
}

TEST(Workers, KeysOfStoragesAreLentForWhatLiesThere) {
  const Variable access("AWS_SECRET_ACCESS_KEY", "hush"), token("FAULTY_TOKEN", "hush");
  const auto told = [](const char* url, const char* variable) {
    Job job;
    job.keys = {"a"};
    job.url = url;
    job.stage = {{"how", "none"}, {"tells", variable}};
    const Ran ran = job.run();
    const auto at = ran.fields.find("a.told");
    return at == ran.fields.end() ? "" : at->second;
  };
  EXPECT_EQ(told("s3://bucket/film.mp4", "AWS_SECRET_ACCESS_KEY"), "hush");
  EXPECT_EQ(told("s3://bucket/film.mp4", "FAULTY_TOKEN"), "");
  EXPECT_EQ(told("/films/film.mp4", "AWS_SECRET_ACCESS_KEY"), "");
}

}  // namespace
}  // namespace kinora::core
