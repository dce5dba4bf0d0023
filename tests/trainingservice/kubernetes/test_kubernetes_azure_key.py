"""The key of an Azure account in the namespace."""

from __future__ import annotations

import base64

from trainingservice.kubernetes_base.api import ApiAccess, KubernetesApi
from trainingservice.kubernetes_base.belongings import Belongings
from trainingservice.kubernetes_base.config import StorageSettings


def storage(key: str) -> StorageSettings:
    return StorageSettings.model_validate({"storageType": "azureStorage", "azureAccount": "account",
                                           "azureShare": "share", "azureAccountKey": key})


def test_a_new_key_of_the_same_account_is_a_new_secret(cluster) -> None:
    api = KubernetesApi(ApiAccess(cluster.kubeconfig))
    names = [Belongings(api, "default", "test").azure_secret(storage(key)) for key in ("old", "new", "new")]
    api.close()
    assert names[0] != names[1]
    assert names[1] == names[2]
    stored = cluster.store.get("secrets", "default", names[1])
    assert base64.b64decode(stored["data"]["azurestorageaccountkey"]) == b"new"
