CREATE TABLE tools (
	tool_id VARCHAR(32) NOT NULL,
	org TEXT NOT NULL,
	name TEXT NOT NULL,
	plugin TEXT NOT NULL,
	toolkit TEXT NOT NULL,
	display_name TEXT NOT NULL,
	description TEXT NOT NULL,
	parameters JSON,
	returns JSON,
	annotations JSON,
	icons JSON NOT NULL,
	meta JSON,
	execution JSON,
	summary TEXT NOT NULL,
	when_to_use TEXT NOT NULL,
	limitations TEXT NOT NULL,
	tags JSON NOT NULL,
	examples JSON NOT NULL,
	execution_type TEXT NOT NULL,
	execution_config JSON,
	semantic_version TEXT NOT NULL,
	status TEXT NOT NULL,
	public BOOLEAN NOT NULL,
	pinned BOOLEAN NOT NULL,
	pin_weight INTEGER NOT NULL,
	interchangeable TEXT NOT NULL,
	content_hash TEXT NOT NULL,
	source_hash TEXT,
	review TEXT NOT NULL,
	approved_version INTEGER,
	served_version INTEGER,
	rejected_hash TEXT,
	flags JSON NOT NULL,
	version INTEGER NOT NULL,
	created_at DATETIME NOT NULL,
	updated_at DATETIME NOT NULL,
	updated_by TEXT NOT NULL,
	deleted_at DATETIME,
	revision INTEGER NOT NULL,
	checksum TEXT NOT NULL,
	CONSTRAINT pk_tools PRIMARY KEY (tool_id)
)

-- next
CREATE INDEX ix_tools_plugin ON tools (plugin)

-- next
CREATE UNIQUE INDEX uq_tools_org_name_alive ON tools (org, name) WHERE deleted_at IS NULL

-- next
CREATE INDEX ix_tools_org_revision ON tools (org, revision)

-- next
CREATE TABLE toolkits (
	toolkit_id VARCHAR(32) NOT NULL,
	org TEXT NOT NULL,
	name TEXT NOT NULL,
	plugin TEXT NOT NULL,
	description TEXT NOT NULL,
	parent TEXT,
	settings_keys JSON NOT NULL,
	base BOOLEAN NOT NULL,
	tier TEXT,
	keywords JSON NOT NULL,
	patterns JSON NOT NULL,
	members JSON NOT NULL,
	version INTEGER NOT NULL,
	created_at DATETIME NOT NULL,
	updated_at DATETIME NOT NULL,
	updated_by TEXT NOT NULL,
	deleted_at DATETIME,
	revision INTEGER NOT NULL,
	checksum TEXT NOT NULL,
	CONSTRAINT pk_toolkits PRIMARY KEY (toolkit_id)
)

-- next
CREATE INDEX ix_toolkits_org_revision ON toolkits (org, revision)

-- next
CREATE UNIQUE INDEX uq_toolkits_org_name_alive ON toolkits (org, name) WHERE deleted_at IS NULL

-- next
CREATE TABLE page_mappings (
	page_id VARCHAR(32) NOT NULL,
	org TEXT NOT NULL,
	pattern TEXT NOT NULL,
	toolkits JSON NOT NULL,
	priority INTEGER NOT NULL,
	plugin TEXT NOT NULL,
	version INTEGER NOT NULL,
	created_at DATETIME NOT NULL,
	updated_at DATETIME NOT NULL,
	updated_by TEXT NOT NULL,
	deleted_at DATETIME,
	revision INTEGER NOT NULL,
	checksum TEXT NOT NULL,
	CONSTRAINT pk_page_mappings PRIMARY KEY (page_id)
)

-- next
CREATE INDEX ix_page_mappings_org_revision ON page_mappings (org, revision)

-- next
CREATE TABLE visibility_rules (
	rule_id VARCHAR(32) NOT NULL,
	org TEXT NOT NULL,
	name TEXT NOT NULL,
	effect TEXT NOT NULL,
	kind TEXT NOT NULL,
	condition JSON NOT NULL,
	tool TEXT NOT NULL,
	toolkit TEXT NOT NULL,
	priority INTEGER NOT NULL,
	active BOOLEAN NOT NULL,
	version INTEGER NOT NULL,
	created_at DATETIME NOT NULL,
	updated_at DATETIME NOT NULL,
	updated_by TEXT NOT NULL,
	deleted_at DATETIME,
	revision INTEGER NOT NULL,
	checksum TEXT NOT NULL,
	CONSTRAINT pk_visibility_rules PRIMARY KEY (rule_id)
)

-- next
CREATE INDEX ix_visibility_rules_org_revision ON visibility_rules (org, revision)

-- next
CREATE UNIQUE INDEX uq_visibility_rules_org_name_alive ON visibility_rules (org, name) WHERE deleted_at IS NULL

-- next
CREATE TABLE plugins (
	org TEXT NOT NULL,
	name TEXT NOT NULL,
	version TEXT NOT NULL,
	payload_hash TEXT NOT NULL,
	review TEXT NOT NULL,
	while_waiting TEXT NOT NULL,
	tools INTEGER NOT NULL,
	synced_at DATETIME NOT NULL,
	synced_by TEXT NOT NULL,
	revision INTEGER NOT NULL,
	CONSTRAINT pk_plugins PRIMARY KEY (org, name)
)

-- next
CREATE TABLE settings (
	org TEXT NOT NULL,
	"key" TEXT NOT NULL,
	is_set BOOLEAN NOT NULL,
	updated_at DATETIME NOT NULL,
	updated_by TEXT NOT NULL,
	revision INTEGER NOT NULL,
	CONSTRAINT pk_settings PRIMARY KEY (org, "key")
)

-- next
CREATE TABLE embeddings (
	identity TEXT NOT NULL,
	content_hash TEXT NOT NULL,
	vector BLOB NOT NULL,
	created_at DATETIME NOT NULL,
	CONSTRAINT pk_embeddings PRIMARY KEY (identity, content_hash)
)

-- next
CREATE TABLE logged_tools (
	number INTEGER NOT NULL,
	name TEXT NOT NULL,
	arm INTEGER NOT NULL,
	intent INTEGER NOT NULL,
	tool_group INTEGER NOT NULL,
	stamp INTEGER NOT NULL,
	CONSTRAINT pk_logged_tools PRIMARY KEY (number),
	CONSTRAINT uq_logged_tools_intent_name_arm_tool_group UNIQUE (intent, name, arm, tool_group)
)

-- next
CREATE TABLE selection_events (
	event_id VARCHAR(32) NOT NULL,
	org TEXT NOT NULL,
	at DATETIME NOT NULL,
	reporter TEXT NOT NULL,
	session TEXT NOT NULL,
	message TEXT NOT NULL,
	message_form TEXT NOT NULL,
	page TEXT NOT NULL,
	tier TEXT NOT NULL,
	category TEXT NOT NULL,
	propensity_error DOUBLE,
	selected JSON NOT NULL,
	profile TEXT NOT NULL,
	experiment TEXT NOT NULL,
	variant TEXT NOT NULL,
	seed INTEGER NOT NULL,
	latency_us DOUBLE NOT NULL,
	tokens_selected INTEGER NOT NULL,
	tokens_total INTEGER NOT NULL,
	confidence DOUBLE,
	catalog_revision TEXT NOT NULL,
	registry_revision INTEGER NOT NULL,
	learned_revision INTEGER NOT NULL,
	degraded JSON NOT NULL,
	space TEXT NOT NULL,
	share DOUBLE NOT NULL,
	details BLOB NOT NULL,
	called JSON,
	outcome TEXT,
	recorded_at DATETIME,
	CONSTRAINT pk_selection_events PRIMARY KEY (event_id)
)

-- next
CREATE INDEX ix_selection_events_org_at ON selection_events (org, at)

-- next
CREATE INDEX ix_selection_events_at ON selection_events (at)

-- next
CREATE TABLE outcomes (
	org TEXT NOT NULL,
	seq INTEGER NOT NULL,
	event_id VARCHAR(32) NOT NULL,
	step INTEGER NOT NULL,
	at DATETIME NOT NULL,
	received_at DATETIME NOT NULL,
	reporter TEXT NOT NULL,
	page TEXT NOT NULL,
	tier TEXT NOT NULL,
	category TEXT NOT NULL,
	details BLOB NOT NULL,
	closes BOOLEAN NOT NULL,
	closing_weight DOUBLE NOT NULL,
	space TEXT NOT NULL,
	voided_at DATETIME,
	CONSTRAINT pk_outcomes PRIMARY KEY (org, seq),
	CONSTRAINT uq_outcomes_event_id_step UNIQUE (event_id, step)
)

-- next
CREATE INDEX ix_outcomes_org_reporter ON outcomes (org, reporter)

-- next
CREATE TABLE open_events (
	event_id VARCHAR(32) NOT NULL,
	org TEXT NOT NULL,
	closes_at DATETIME NOT NULL,
	exposure JSON NOT NULL,
	CONSTRAINT pk_open_events PRIMARY KEY (event_id)
)

-- next
CREATE INDEX ix_open_events_closes_at ON open_events (closes_at)

-- next
CREATE TABLE learning_state (
	org TEXT NOT NULL,
	seq INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	CONSTRAINT pk_learning_state PRIMARY KEY (org)
)

-- next
CREATE TABLE learned_checkpoints (
	org TEXT NOT NULL,
	rates TEXT NOT NULL,
	seq INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	learned BLOB NOT NULL,
	at DATETIME NOT NULL,
	CONSTRAINT pk_learned_checkpoints PRIMARY KEY (org, rates, seq)
)

-- next
CREATE TABLE arm_statistics (
	org TEXT NOT NULL,
	tool TEXT NOT NULL,
	level TEXT NOT NULL,
	context_key TEXT NOT NULL,
	successes DOUBLE NOT NULL,
	failures DOUBLE NOT NULL,
	calls DOUBLE NOT NULL,
	expected DOUBLE NOT NULL,
	shown INTEGER NOT NULL,
	called INTEGER NOT NULL,
	succeeded INTEGER NOT NULL,
	updated_at DATETIME NOT NULL,
	CONSTRAINT pk_arm_statistics PRIMARY KEY (org, tool, level, context_key)
)

-- next
CREATE TABLE reporter_counts (
	org TEXT NOT NULL,
	tool TEXT NOT NULL,
	reporter TEXT NOT NULL,
	day DATE NOT NULL,
	counted INTEGER NOT NULL,
	CONSTRAINT pk_reporter_counts PRIMARY KEY (org, tool, reporter, day)
)

-- next
CREATE INDEX ix_reporter_counts_day ON reporter_counts (day)

-- next
CREATE TABLE shared_priors (
	tool TEXT NOT NULL,
	successes DOUBLE NOT NULL,
	failures DOUBLE NOT NULL,
	calls DOUBLE NOT NULL,
	expected DOUBLE NOT NULL,
	organisations INTEGER NOT NULL,
	epsilon DOUBLE NOT NULL,
	at DATETIME NOT NULL,
	CONSTRAINT pk_shared_priors PRIMARY KEY (tool)
)

-- next
CREATE TABLE experiments (
	name TEXT NOT NULL,
	org TEXT NOT NULL,
	variants JSON NOT NULL,
	unit TEXT NOT NULL,
	salt TEXT NOT NULL,
	active BOOLEAN NOT NULL,
	begun_at DATETIME NOT NULL,
	ended_at DATETIME,
	CONSTRAINT pk_experiments PRIMARY KEY (name)
)

-- next
CREATE TABLE receipt_keys (
	key_id TEXT NOT NULL,
	secret BLOB NOT NULL,
	created_at DATETIME NOT NULL,
	retired_at DATETIME,
	CONSTRAINT pk_receipt_keys PRIMARY KEY (key_id)
)

-- next
CREATE TABLE service_keys (
	key_id VARCHAR(32) NOT NULL,
	name TEXT NOT NULL,
	org TEXT,
	roles JSON NOT NULL,
	plugin TEXT NOT NULL,
	digest BLOB NOT NULL,
	created_at DATETIME NOT NULL,
	created_by TEXT NOT NULL,
	expires_at DATETIME,
	CONSTRAINT pk_service_keys PRIMARY KEY (key_id)
)

-- next
CREATE TABLE accounts (
	name TEXT NOT NULL,
	org TEXT,
	roles JSON NOT NULL,
	password TEXT NOT NULL,
	created_at DATETIME NOT NULL,
	created_by TEXT NOT NULL,
	changed_at DATETIME NOT NULL,
	CONSTRAINT pk_accounts PRIMARY KEY (name)
)

-- next
CREATE TABLE sessions (
	org TEXT NOT NULL,
	session TEXT NOT NULL,
	turn INTEGER NOT NULL,
	record JSON NOT NULL,
	version INTEGER NOT NULL,
	created_at DATETIME NOT NULL,
	updated_at DATETIME NOT NULL,
	expires_at DATETIME,
	CONSTRAINT pk_sessions PRIMARY KEY (org, session)
)

-- next
CREATE INDEX ix_sessions_updated_at ON sessions (updated_at)

-- next
CREATE INDEX ix_sessions_expires_at ON sessions (expires_at)

-- next
CREATE TABLE changes (
	seq INTEGER NOT NULL,
	revision INTEGER NOT NULL,
	org TEXT NOT NULL,
	at DATETIME NOT NULL,
	actor TEXT NOT NULL,
	action TEXT NOT NULL,
	subject TEXT NOT NULL,
	reason TEXT NOT NULL,
	details JSON NOT NULL,
	CONSTRAINT pk_changes PRIMARY KEY (seq)
)

-- next
CREATE INDEX ix_changes_org_subject ON changes (org, subject)

-- next
CREATE INDEX ix_changes_revision ON changes (revision)

-- next
CREATE TRIGGER changes_no_update BEFORE UPDATE ON changes BEGIN SELECT RAISE(ABORT, 'changes only grows: its rows are neither changed nor deleted'); END

-- next
CREATE TRIGGER changes_no_delete BEFORE DELETE ON changes BEGIN SELECT RAISE(ABORT, 'changes only grows: its rows are neither changed nor deleted'); END

-- next
CREATE TRIGGER changes_no_replace BEFORE INSERT ON changes WHEN EXISTS (SELECT 1 FROM changes WHERE seq = NEW.seq) BEGIN SELECT RAISE(ABORT, 'changes only grows: its rows are neither changed nor deleted'); END

-- next
CREATE TABLE registry_state (
	id INTEGER NOT NULL,
	revision INTEGER NOT NULL,
	tiers JSON NOT NULL,
	tiers_checksum TEXT NOT NULL,
	created_at DATETIME NOT NULL,
	CONSTRAINT pk_registry_state PRIMARY KEY (id),
	CONSTRAINT ck_registry_state_one_row CHECK (id = 1)
)

-- next
CREATE TABLE tool_versions (
	tool_id VARCHAR(32) NOT NULL,
	version INTEGER NOT NULL,
	snapshot JSON NOT NULL,
	changed JSON NOT NULL,
	reason TEXT NOT NULL,
	actor TEXT NOT NULL,
	at DATETIME NOT NULL,
	content_hash TEXT NOT NULL,
	semantic_version TEXT NOT NULL,
	revision INTEGER NOT NULL,
	CONSTRAINT pk_tool_versions PRIMARY KEY (tool_id, version),
	CONSTRAINT fk_tool_versions_tool_id FOREIGN KEY(tool_id) REFERENCES tools (tool_id)
)

-- next
CREATE TRIGGER tool_versions_no_update BEFORE UPDATE ON tool_versions BEGIN SELECT RAISE(ABORT, 'tool_versions only grows: its rows are neither changed nor deleted'); END

-- next
CREATE TRIGGER tool_versions_no_delete BEFORE DELETE ON tool_versions BEGIN SELECT RAISE(ABORT, 'tool_versions only grows: its rows are neither changed nor deleted'); END

-- next
CREATE TRIGGER tool_versions_no_replace BEFORE INSERT ON tool_versions WHEN EXISTS (SELECT 1 FROM tool_versions WHERE tool_id = NEW.tool_id AND version = NEW.version) BEGIN SELECT RAISE(ABORT, 'tool_versions only grows: its rows are neither changed nor deleted'); END

-- next
CREATE TABLE pins (
	pin_id VARCHAR(32) NOT NULL,
	org TEXT NOT NULL,
	tool_id VARCHAR(32) NOT NULL,
	pinned BOOLEAN NOT NULL,
	pin_weight INTEGER NOT NULL,
	version INTEGER NOT NULL,
	created_at DATETIME NOT NULL,
	updated_at DATETIME NOT NULL,
	updated_by TEXT NOT NULL,
	deleted_at DATETIME,
	revision INTEGER NOT NULL,
	checksum TEXT NOT NULL,
	CONSTRAINT pk_pins PRIMARY KEY (pin_id),
	CONSTRAINT fk_pins_tool_id FOREIGN KEY(tool_id) REFERENCES tools (tool_id)
)

-- next
CREATE UNIQUE INDEX uq_pins_org_tool_id_alive ON pins (org, tool_id) WHERE deleted_at IS NULL

-- next
CREATE INDEX ix_pins_org_revision ON pins (org, revision)

-- next
CREATE TABLE toolroll_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)

-- next
INSERT INTO toolroll_version VALUES ('0001')
