CREATE TABLE gates (resource text PRIMARY KEY, fence bigint NOT NULL);
