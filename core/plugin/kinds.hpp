// The kinds of component that this host knows: the interface that a component of each kind offers, and its
// table.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

struct kinora_stage;
struct kinora_storage;
struct kinora_engine;
struct kinora_tokenizer;
struct kinora_model;
struct kinora_loss;
struct kinora_sampler;
struct kinora_optimizer;
struct kinora_score;
struct kinora_parallel;
struct kinora_precision;
struct kinora_cache;
struct kinora_source;
struct kinora_collective;

namespace kinora::core {

class JobType;

struct Kind {
  const char* name;       // "sampler": the part of an id before the slash
  const char* interface;  // "kinora.sampler/1"
  uint32_t table_size;    // bytes of the interface's table in ABI 1.0, the minimum for a plugin
  const char* slots;      // names of its functions, in order, from byte 8 on; "?" after one that may be null
  const char* word = "reserved";  // the number at byte 4,
  uint32_t last_known = 0;        // and the largest value of it that this host knows (abi/base.h, rule 11)
};

std::span<const Kind> kinds();

// Null: unknown.
const Kind* find_kind(std::string_view name);

// "kinora.model/1-draft.1": may change in any release, so that only this very draft fits (rule 12 of base.h).
bool is_draft(std::string_view interface);

// The table of a component of kind "job". It gives a C++ object of this one build of Kinora (tier "host").
struct kinora_job {
  uint32_t struct_size;
  uint32_t reserved;
  const JobType* (*type)();  // [any-thread] constant, lives as long as the library
};
inline constexpr const char* kJobInterface = "kinora.job/host";

// The kind of component that has this table.
template <class Table>
inline constexpr const char* kTableKind = nullptr;
template <>
inline constexpr const char* kTableKind<kinora_stage> = "stage";
template <>
inline constexpr const char* kTableKind<kinora_storage> = "storage";
template <>
inline constexpr const char* kTableKind<kinora_engine> = "engine";
template <>
inline constexpr const char* kTableKind<kinora_tokenizer> = "tokenizer";
template <>
inline constexpr const char* kTableKind<kinora_model> = "model";
template <>
inline constexpr const char* kTableKind<kinora_loss> = "loss";
template <>
inline constexpr const char* kTableKind<kinora_sampler> = "sampler";
template <>
inline constexpr const char* kTableKind<kinora_optimizer> = "optimizer";
template <>
inline constexpr const char* kTableKind<kinora_score> = "score";
template <>
inline constexpr const char* kTableKind<kinora_parallel> = "parallel";
template <>
inline constexpr const char* kTableKind<kinora_precision> = "precision";
template <>
inline constexpr const char* kTableKind<kinora_cache> = "cache";
template <>
inline constexpr const char* kTableKind<kinora_source> = "source";
template <>
inline constexpr const char* kTableKind<kinora_collective> = "collective";
template <>
inline constexpr const char* kTableKind<kinora_job> = "job";

}  // namespace kinora::core
