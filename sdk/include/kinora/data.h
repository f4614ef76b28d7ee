/* kinora/data.h: the samples of shards in the order in which a training takes them, inside another program.
 *
 * DRAFT: functions may change in any release, as those of kinora/embed.h, whose conventions these follow. After a
 * negative status kinora_embed_error() says what is wrong, where, and what to do.
 *
 * Slot n holds the n-th sample that all ranks of a training together take. Which sample that is depends on the
 * table, the data and the seed alone. So a rank takes the slots that are its own, and a position is one number. */
#ifndef KINORA_DATA_H
#define KINORA_DATA_H
#include "kinora/embed.h"
KINORA_EXTERN_C_BEGIN

typedef struct kinora_data kinora_data;

/* [owner-thread] table: as `input` of a run file, in TOML: "{ path = \"shards/\", shuffle = 1000 }", or a blend.
 * Relative paths start in the working directory. stages: as of kinora_embed_stage_options; null: none. Close
 * the data before the host. KINORA_ERROR_INVALID with every problem of the table, or for an unknown stage or option. */
int32_t kinora_data_open(kinora_embed*, const char* table, const char* stages, uint64_t seed,
                         kinora_data** out);
void kinora_data_close(kinora_data*);

/* [owner-thread] Slots of one pass: the number of samples; of a blend by epochs, each counted as often as it is
 * taken. */
uint64_t kinora_data_pass(const kinora_data*);
/* [owner-thread] 64 hexadecimal digits that identify everything the order depends on: a position belongs to data
 * with its digest. Lives as long as the data. */
const char* kinora_data_digest(const kinora_data*);

/* [owner-thread] Of every `of` slots from `first` on, kinora_data_at() will be asked for the first `count`, one after
 * the other, so that their samples can be read ahead (`memory` and `readers` in the table). Until it is called: all
 * slots. count = 0: nothing is read ahead. */
int32_t kinora_data_follow(kinora_data*, uint64_t first, uint64_t count, uint64_t of);
/* [owner-thread] What the stages make first of the sample of a slot, with one reference that becomes the caller's. In
 * place of a sample that cannot be read, or that a stage drops or fails, comes another of its set, always the same,
 * with a warning in the log. KINORA_ERROR_DATA after 1000 in a row, or if more samples could not be read or failed than
 * the table accepts (`max_failed`, `max_failed_share`). */
int32_t kinora_data_at(kinora_data*, uint64_t slot, kinora_sample** out);

/* [any-thread] Writes a JSON object with what was done since the data were opened: "samples" read for the caller, those
 * in place of others included; "failed" ones, each once; "waited", the seconds that kinora_data_at() waited for
 * samples; "bytes" read from each set, by its path; "cache_hits" and "cache_bytes", reads that the cache answered;
 * "ready", samples that are read and not yet asked for, and "ahead_peak", the most bytes of such samples at once. */
int32_t kinora_data_stats(const kinora_data*, const kinora_sink* to);

KINORA_EXTERN_C_END
#endif
