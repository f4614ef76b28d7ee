// Tests metrics.prom and live.json of a job.
#include "plugins/jobs/live/live.hpp"

#include <ctime>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

TEST(Live, TellsWhatServersWereAskedAndWhenItWasWritten) {
  const json usage{{"caption.endpoint", {{"requests", 3}, {"prompt_tokens", 300}, {"cost", 0.25}}},
                   {"filter.ocr", {{"requests", 2}}},
                   {"odd", 7}};
  const std::string text =
      prometheus_text("cl\"ips", {{"total", 9}, {"updated", 1700000000.0}, {"usage", usage}});
  EXPECT_THAT(text, HasSubstr("kinora_job_updated_seconds{job=\"cl\\\"ips\"} 1700000000\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE kinora_stage_requests_total counter\n"
                              "kinora_stage_requests_total{job=\"cl\\\"ips\",stage=\"caption.endpoint\"} 3\n"
                              "kinora_stage_requests_total{job=\"cl\\\"ips\",stage=\"filter.ocr\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("kinora_stage_cost_total{job=\"cl\\\"ips\",stage=\"caption.endpoint\"} 0.25\n"));
  EXPECT_THAT(text, Not(HasSubstr("kinora_stage_completion_tokens_total"))) << "no server has reported any";
  EXPECT_THAT(prometheus_text("a", json::object()), Not(HasSubstr("requests")));
}

TEST(Live, TellsWhatTheNodesOfAClusterHaveAndHowManyWereLost) {
  const json live{{"nodes_lost", 2},
                  {"stages", {{{"name", "cut"}, {"redone", 3}}}},
                  {"nodes",
                   {{{"name", "10.0.0.4-3f9a2b"}, {"workers", 5}, {"cores_used", 1.5}, {"bytes", 4096}},
                    {{"name", "n\"2"}, {"workers", 0}, {"gpus_used", 0.25}}}}};
  const std::string text = prometheus_text("clips", live);
  EXPECT_THAT(text, HasSubstr("# TYPE kinora_node_workers gauge\n"
                              "kinora_node_workers{job=\"clips\",node=\"10.0.0.4-3f9a2b\"} 5\n"
                              "kinora_node_workers{job=\"clips\",node=\"n\\\"2\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("kinora_node_cores_used{job=\"clips\",node=\"10.0.0.4-3f9a2b\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("kinora_node_gpus_used{job=\"clips\",node=\"n\\\"2\"} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("kinora_node_bytes{job=\"clips\",node=\"10.0.0.4-3f9a2b\"} 4096\n"));
  EXPECT_THAT(text, HasSubstr("kinora_stage_redone_total{job=\"clips\",stage=\"cut\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("kinora_job_nodes_lost_total{job=\"clips\"} 2\n"));
  EXPECT_THAT(prometheus_text("a", json::object()), Not(HasSubstr("kinora_node_")));
}

TEST(Live, TellsWhatATrainingDoesAndItsLoadingHasReadAndWaitedFor) {
  const json loading{{"samples", 12},
                     {"waited", 1.5},
                     {"ready", 3},
                     {"too_short", 4},
                     {"dropped", {{"filter.facts", 5}, {"filter.blur", 6}}},
                     {"left_out", {{"part", 70}, {"where", 8}}},
                     {"bytes", {{"a/\"b", 700}, {"s3://c", 0}}}};
  const std::string text = training_text(
      "dit", 800, {{"step", 7}, {"loss", 0.25}, {"samples_per_second", 3.5}}, loading, 1700000000.0);
  EXPECT_THAT(text, HasSubstr("# TYPE kinora_train_loss gauge\nkinora_train_loss{job=\"dit\"} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("kinora_train_step{job=\"dit\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("kinora_train_steps{job=\"dit\"} 800\n"));
  EXPECT_THAT(text, HasSubstr("kinora_train_samples_per_second{job=\"dit\"} 3.5\n"));
  EXPECT_THAT(text, Not(HasSubstr("tokens_per_second"))) << "they were not counted";
  EXPECT_THAT(text, HasSubstr("kinora_data_too_short_total{job=\"dit\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE kinora_data_dropped_total counter\n"
                              "kinora_data_dropped_total{job=\"dit\",rule=\"filter.blur\"} 6\n"
                              "kinora_data_dropped_total{job=\"dit\",rule=\"filter.facts\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("kinora_data_left_out{job=\"dit\",by=\"part\"} 70\n"
                              "kinora_data_left_out{job=\"dit\",by=\"where\"} 8\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE kinora_data_samples_total counter\n"
                              "kinora_data_samples_total{job=\"dit\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("kinora_data_wait_seconds_total{job=\"dit\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("kinora_data_queue{job=\"dit\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("kinora_data_bytes_total{job=\"dit\",source=\"a/\\\"b\"} 700\n"
                              "kinora_data_bytes_total{job=\"dit\",source=\"s3://c\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("kinora_job_updated_seconds{job=\"dit\"} 1700000000\n"));
  EXPECT_THAT(text, HasSubstr("kinora_job_ended{job=\"dit\"} 0\n"));
}

TEST(Live, OfATrainingWritesOnlyTheMetrics) {
  const fs::path folder = fs::path(testing::TempDir()) / ("loading-" + std::to_string(getpid()));
  fs::create_directories(folder);
  Live("dit", folder, 9).update_training({{"step", 1}}, nullptr);
  std::ifstream in(folder / "metrics.prom");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(text, HasSubstr("kinora_train_steps{job=\"dit\"} 9\n"));
  EXPECT_THAT(text, Not(HasSubstr("kinora_data_"))) << "nothing is loaded";
  EXPECT_FALSE(fs::exists(folder / "live.json"));
  fs::remove_all(folder);
}

TEST(Live, WritesBothFilesWithTheTime) {
  const fs::path folder = fs::path(testing::TempDir()) / ("live-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const auto before = static_cast<double>(std::time(nullptr));
  Live live("clips", folder, 12);
  live.update({{"seconds", 1.5}, {"usage", {{"filter.ocr", {{"requests", 2}}}}}}, 7, 30);
  const json shown = json::parse(std::ifstream(folder / "live.json"));
  EXPECT_EQ(shown["total"], 12);
  EXPECT_EQ(shown["done"], 7);
  EXPECT_EQ(shown["usage"]["filter.ocr"]["requests"], 2);
  EXPECT_GE(shown["updated"], before);
  EXPECT_LE(shown["updated"], before + 10);
  EXPECT_TRUE(fs::exists(folder / "metrics.prom"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace kinora::core
