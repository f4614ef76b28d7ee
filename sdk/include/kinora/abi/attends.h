/* kinora.attends/1-draft.1: a link that attends by itself.                                    draft
 *
 * The link of a strategy whose attention over split keys never reaches the links below (keys that travel
 * around a ring) offers it through get_interface of its context, from bind() on. The table is the strategy's
 * name: a text that lives as long as the link. A precision that rounds queries and keys refuses to be below
 * such a link, before anything runs.
 *
 * Draft: it becomes 1.0 together with kinora.link. */
#ifndef KINORA_ABI_ATTENDS_H
#define KINORA_ABI_ATTENDS_H
#define KINORA_INTERFACE_ATTENDS "kinora.attends/1-draft.1"
#endif
